package deadlines_test

import (
	"bufio"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A proxy passes connections on to a server. It can cut them, and change what the server sends.
type proxy struct {
	listener net.Listener
	target   string
	change   func(line []byte) []byte // of what the server sends, or nil

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

func startProxy(t *testing.T, target string, change func(line []byte) []byte) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, target: target, change: change, conns: make(map[net.Conn]bool)}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		if p.down {
			client.Close()
			server.Close()
		} else {
			p.conns[client], p.conns[server] = true, true
			p.wg.Go(func() { p.pass(server, client, nil) })
			p.wg.Go(func() { p.pass(client, server, p.change) })
		}
		p.mu.Unlock()
	}
}

// pass copies from a connection to another one until one of them ends, and ends both.
func (p *proxy) pass(to, from net.Conn, change func([]byte) []byte) {
	if change == nil {
		io.Copy(to, from)
	} else {
		for r := bufio.NewReader(from); ; { // everything that a server sends ends with a line
			line, err := r.ReadBytes('\n')
			if err != nil {
				break
			}
			if _, err = to.Write(change(line)); err != nil {
				break
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		c.Close()
		delete(p.conns, c)
	}
}

// cut ends all connections, and refuses others until mend.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}
