package main

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/hashedwheel/hashedwheel/deadlines/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// The exit code tells a store without faults from one with faults, one that cannot be read, and one of which the
// servers send less than they hold.
func TestExitCode(t *testing.T) {
	srv, err := server.Start(server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(srv.Stop)
	nc, err := deadlines.Connect(srv.URL())
	require.NoError(t, err)
	defer nc.Close()
	s, err := deadlines.Open(t.Context(), nc, deadlines.Config{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Set(t.Context(), "a", time.Now().Add(time.Hour), nil))

	check := func(code int, text string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		require.Equal(t, code, run(append([]string{"-nats=" + srv.URL()}, args...), &out, &out), out.String())
		require.Contains(t, out.String(), text)
	}
	check(0, "keys 1: pending 1, running 0, handled 0, canceled 0\nrevisions 1, wake-ups 1, set aside 0\noverdue 0, by up to 0s\nfaults 0\n")
	check(2, "bucket not found", "-name=other")
	check(2, "no servers available", "-nats=nats://127.0.0.1:1")
	check(2, "flag provided but not defined", "-color")
	check(0, "Usage of deadlinecheck", "-h")
	for limit, code := range map[string]int{"500ms": 3, "1m": 0} {
		url := lie(t, strings.TrimPrefix(srv.URL(), "nats://"), 3*time.Second)
		text := "keys 1: "
		if code == 3 {
			text = "the servers hold more than they send: 1 of 9 revisions"
		}
		check(code, text, "-nats="+url, "-timeout="+limit)
	}

	js, err := jetstream.New(nc)
	require.NoError(t, err)
	wakeups, err := js.Stream(t.Context(), "deadlines-wakeups")
	require.NoError(t, err)
	require.NoError(t, wakeups.Purge(t.Context()))
	check(1, `"a", revision 1: pending, but its wake-up`)
	check(0, "faults 1\n\"a\", revision 1: pending, but its wake-up", "-repair")
	check(0, "faults 0\n")

	// The stream is gone, and no process makes it again.
	s.Close()
	require.NoError(t, js.DeleteStream(t.Context(), "deadlines-wakeups"))
	check(1, `"a", revision 1: pending, but its wake-up`)
	check(0, "repaired 1\n", "-repair")
	check(0, "faults 0\n")

	s, err = deadlines.Open(t.Context(), nc, deadlines.Config{})
	require.NoError(t, err)
	defer s.Close()
	check(0, `"a" is due now`, "-release=a")
	d, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.False(t, d.At.After(time.Now()))
	check(1, `"b" is not pending`, "-release=b")
	check(2, "stream not found", "-release=a", "-name=other")
}

// lie passes connections on to a server, and for a while says that a stream of 1 message has 9. The servers of a
// cluster, where a consumer may be on another server than the leader, do so after a restoration.
func lie(t *testing.T, target string, d time.Duration) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	end := time.Now().Add(d)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				io.Copy(server, client)
				server.Close()
			}()
			go func() {
				defer client.Close()
				for b := make([]byte, 64<<10); ; {
					n, err := server.Read(b)
					if err != nil {
						return
					}
					text := b[:n]
					if time.Now().Before(end) {
						text = bytes.ReplaceAll(text, []byte(`"messages":1,`), []byte(`"messages":9,`))
					}
					client.Write(text)
				}
			}()
		}
	}()
	return "nats://" + l.Addr().String()
}
