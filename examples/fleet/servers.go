package main

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startLimit bounds the time until servers, or their streams and buckets, can be used.
const startLimit = 30 * time.Second

// servers run inside this process: one, or a cluster of several. The methods must not be called at
// the same time.
type servers struct {
	options []*server.Options
	running []*server.Server // nil for one that is stopped
}

// startServers starts n servers. Each keeps its files in a directory of its own inside dir. The first one
// listens for clients at address, whose port may be 0 for any free port, and the others at free ports.
//
// With fsync a server acknowledges a message when it is on disk. By default a server calls fsync only
// every two minutes. Then a power failure loses the messages since the last call. If only the process
// ends, no message is lost.
func startServers(n int, dir, address string, fsync bool) (*servers, error) {
	host, port, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	s := &servers{running: make([]*server.Server, n)}
	routes, err := freeRoutes(n)
	if err != nil {
		return nil, err
	}
	for i := range n {
		name := fmt.Sprintf("s%d", i+1)
		o := &server.Options{
			ServerName: name, Host: host, Port: port,
			JetStream: true, StoreDir: filepath.Join(dir, name), SyncAlways: fsync,
			NoLog: true, NoSigs: true,
		}
		if n > 1 {
			o.Cluster = server.ClusterOpts{Name: consumerName, Host: routes[i].Hostname(), Port: portOf(routes[i])}
			o.Routes = routes
		}
		port = server.RANDOM_PORT
		s.options = append(s.options, o)
	}
	for i := range n {
		if err := s.start(i); err != nil {
			s.stopAll()
			return nil, err
		}
	}
	return s, nil
}

func splitAddress(address string) (host string, port int, err error) {
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return "", 0, err
	}
	if tcp.IP == nil { // ":4222": every address of this machine
		tcp.IP = net.IPv4zero
	}
	if tcp.Port == 0 {
		return tcp.IP.String(), server.RANDOM_PORT, nil
	}
	return tcp.IP.String(), tcp.Port, nil
}

// freeRoutes returns addresses on loopback for n servers of a cluster. The servers must know all of
// them before they start.
func freeRoutes(n int) (routes []*url.URL, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // not before all ports are chosen
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
	}
	return routes, nil
}

func portOf(u *url.URL) (port int) {
	fmt.Sscan(u.Port(), &port)
	return port
}

// start starts a server that is stopped, on the port that it had before. The server takes part in the
// cluster as soon as most of the servers have been started.
func (s *servers) start(i int) error {
	srv, err := server.NewServer(s.options[i].Clone())
	if err != nil {
		return fmt.Errorf("server %d: %w", i+1, err)
	}
	fatal := make(failure, 1)
	srv.SetLogger(fatal, false, false)
	srv.Start()
	s.running[i] = srv
	for end := time.Now().Add(startLimit); !srv.ReadyForConnections(50 * time.Millisecond); {
		select {
		case reason := <-fatal:
			return fmt.Errorf("server %d: %s", i+1, reason)
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("server %d takes no connections", i+1)
		}
	}
	s.options[i].Port = srv.Addr().(*net.TCPAddr).Port
	return nil
}

// A failure is a logger that keeps the reason why a server cannot start. It drops everything else,
// because other problems make requests fail.
type failure chan string

func (f failure) Fatalf(format string, v ...any) {
	select {
	case f <- fmt.Sprintf(format, v...):
	default: // only the first reason is kept
	}
}

func (failure) Errorf(string, ...any)  {}
func (failure) Warnf(string, ...any)   {}
func (failure) Noticef(string, ...any) {}
func (failure) Debugf(string, ...any)  {}
func (failure) Tracef(string, ...any)  {}

// stop stops a server. This is not a crash, but other servers have to take its place.
func (s *servers) stop(i int) {
	if srv := s.running[i]; srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		s.running[i] = nil
	}
}

func (s *servers) stopAll() {
	for i := range s.running {
		s.stop(i)
	}
}

// urls returns the addresses of all servers, for clients.
func (s *servers) urls() string {
	var urls []string
	for _, o := range s.options {
		urls = append(urls, fmt.Sprintf("nats://%s", net.JoinHostPort(o.Host, fmt.Sprint(o.Port))))
	}
	return strings.Join(urls, ",")
}

// leader returns which server leads a stream, or -1 if no running server knows that it leads.
func (s *servers) leader(stream string) int {
	for i, srv := range s.running {
		if srv != nil && srv.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			return i
		}
	}
	return -1
}
