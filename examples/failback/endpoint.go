package main

import (
	"net"
	"net/http"
	"sync"
)

// An endpoint is the address of a server that goes up and down. When it goes down, its listener and all its
// connections are closed. This cuts off requests in progress, and new requests are refused.
type endpoint struct {
	mu     sync.Mutex
	addr   string
	server *http.Server  // nil while it is down
	served chan struct{} // closed when the server accepts no more
}

// up starts serving h at the endpoint, which must be down.
func (e *endpoint) up(h http.Handler) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	ln, err := e.listen()
	if err != nil {
		return err
	}
	e.addr = ln.Addr().String()
	server, served := &http.Server{Handler: h}, make(chan struct{})
	e.server, e.served = server, served
	go func() {
		defer close(served)
		server.Serve(ln)
	}()
	return nil
}

// listen listens at the previous address. If another connection has taken the port meanwhile, it listens at
// another port. That works because clients ask for the URL each time.
func (e *endpoint) listen() (net.Listener, error) {
	if e.addr != "" {
		if ln, err := net.Listen("tcp", e.addr); err == nil {
			return ln, nil
		}
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

// down takes the endpoint down, if it is up. Handlers may still be running when it returns, but their answers
// are lost.
func (e *endpoint) down() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server == nil {
		return
	}
	e.server.Close()
	<-e.served
	e.server = nil
}

// url returns the URL of a path at the endpoint, also while it is down.
func (e *endpoint) url(path string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return "http://" + e.addr + path
}
