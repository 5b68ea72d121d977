package idle

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

const benchLimit = 30 * time.Second

// onRead is a connection that calls do before each Read and Write, as a program without this package would.
type onRead struct {
	net.Conn
	do func()
}

func (c *onRead) Read(b []byte) (int, error) {
	c.do()
	return c.Conn.Read(b)
}

func (c *onRead) Write(b []byte) (int, error) {
	c.do()
	return c.Conn.Write(b)
}

// impls returns the ways to limit a connection. Those that use deadlines set them on tcp, which is a real
// connection and so uses the poller.
func impls(b *testing.B) map[string]func(c, tcp net.Conn) net.Conn {
	b.Helper()
	timer, err := hashedwheel.New()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { timer.Stop() })
	l, err := New(timer, benchLimit)
	if err != nil {
		b.Fatal(err)
	}
	precise, err := hashedwheel.New(hashedwheel.WithTick(time.Microsecond),
		hashedwheel.WithLogger(slog.New(slog.DiscardHandler))) // it warns of so short a tick
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { precise.Stop() })
	return map[string]func(c, tcp net.Conn) net.Conn{
		"none": func(c, _ net.Conn) net.Conn { return c },
		"idle": func(c, _ net.Conn) net.Conn {
			limited, err := l.Conn(c)
			if err != nil {
				b.Fatal(err)
			}
			return limited
		},
		"unlimited": func(c, _ net.Conn) net.Conn {
			limited, err := l.Conn(c)
			if err != nil {
				b.Fatal(err)
			}
			if err := limited.SetSilence(math.MaxInt64); err != nil {
				b.Fatal(err)
			}
			return limited
		},
		"moved": func(c, _ net.Conn) net.Conn { // as if each packet was the first one of a tick
			limited, err := (&Limit{timer: precise, silence: benchLimit, start: l.start}).Conn(c)
			if err != nil {
				b.Fatal(err)
			}
			return limited
		},
		"deadline": func(c, tcp net.Conn) net.Conn {
			return &onRead{c, func() { tcp.SetReadDeadline(time.Now().Add(benchLimit)) }}
		},
		"time": func(c, _ net.Conn) net.Conn {
			t := time.AfterFunc(benchLimit, func() { c.Close() })
			b.Cleanup(func() { t.Stop() })
			return &onRead{c, func() { t.Reset(benchLimit) }}
		},
	}
}

var implNames = []string{"none", "idle", "unlimited", "moved", "deadline", "time"}

// pair returns both ends of a connection over loopback.
func pair(b *testing.B, ln net.Listener) (near, far net.Conn) {
	b.Helper()
	far, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	near, err = ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func listen(b *testing.B) net.Listener {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	return ln
}

// The cost of the limit alone for each packet read, because the packets come from memory. Deadlines are set on
// a real connection, where they cost the same whatever is read.
func BenchmarkPacket(b *testing.B) {
	for _, conns := range []int{1, 100} {
		for _, name := range implNames {
			b.Run(fmt.Sprintf("conns=%d/impl=%s", conns, name), func(b *testing.B) {
				wrap, ln := impls(b)[name], listen(b)
				all := make([]net.Conn, conns)
				for i := range all {
					tcp, _ := pair(b, ln)
					all[i] = wrap(&fake{}, tcp)
				}
				buf := make([]byte, 64)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					all[i].Read(buf)
					if i++; i == conns {
						i = 0
					}
				}
			})
		}
	}
}

// Both directions at the same time: one goroutine reads and one writes.
func BenchmarkDuplex(b *testing.B) {
	for _, name := range implNames {
		b.Run("impl="+name, func(b *testing.B) {
			tcp, _ := pair(b, listen(b))
			c := impls(b)[name](&fake{}, tcp)
			var ends sync.WaitGroup
			for _, op := range []func([]byte) (int, error){c.Read, c.Write} {
				ends.Go(func() {
					buf := make([]byte, 64)
					for range b.N {
						op(buf)
					}
				})
			}
			ends.Wait()
		})
	}
}

// A packet of 64 bytes to a server over loopback, and back. The server's end has the limit.
func BenchmarkPingPong(b *testing.B) {
	for _, name := range implNames {
		b.Run("impl="+name, func(b *testing.B) {
			tcp, client := pair(b, listen(b))
			server := impls(b)[name](tcp, tcp)
			done := make(chan struct{})
			go func() {
				defer close(done)
				buf := make([]byte, 64)
				for {
					if _, err := io.ReadFull(server, buf); err != nil {
						return
					}
					server.Write(buf)
				}
			}()
			buf := make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				client.Write(buf)
				if _, err := io.ReadFull(client, buf); err != nil {
					b.Fatal(err)
				}
			}
			client.Close()
			<-done
		})
	}
}

// A file of 16 MB over loopback: by sendfile, and by Read and Write.
func BenchmarkFile(b *testing.B) {
	const size = 16 << 20
	path := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for _, name := range []string{"none", "idle", "copied"} {
		b.Run("impl="+name, func(b *testing.B) {
			tcp, client := pair(b, listen(b))
			go io.Copy(io.Discard, client)
			var w io.Writer = tcp
			switch name {
			case "idle":
				w = impls(b)[name](tcp, tcp)
			case "copied":
				w = writer{tcp}
			}
			b.SetBytes(size)
			for b.Loop() {
				if _, err := f.Seek(0, io.SeekStart); err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(w, f); n != size || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// 16 MB over loopback in one Write. A Conn sends them in pieces.
func BenchmarkLargeWrite(b *testing.B) {
	const size = 16 << 20
	data := make([]byte, size)
	for _, name := range []string{"none", "idle"} {
		b.Run("impl="+name, func(b *testing.B) {
			tcp, client := pair(b, listen(b))
			go func() {
				buf := make([]byte, 256<<10)
				for {
					if _, err := client.Read(buf); err != nil {
						return
					}
				}
			}()
			w := impls(b)[name](tcp, tcp)
			b.SetBytes(size)
			for b.Loop() {
				if n, err := w.Write(data); n != size || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
