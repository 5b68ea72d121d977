// Package server runs a NATS server with JetStream inside the process.
//
// A server stands alone or is a member of a cluster. It keeps its files in one folder, and a lock keeps
// a second server out of the folder. A server that cannot write because its disk is full starts again
// when the disk has free space.
package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
)

// ErrLocked means that another server uses the folder, in this process or in another one.
var ErrLocked = errors.New("the folder is in use by another server")

// startLimit bounds the time until a server takes connections. A server that has a reason to fail
// fails earlier.
const startLimit = 30 * time.Second

// Config describes a server.
type Config struct {
	// Dir keeps the files of the server. Start makes it if it is missing. The server locks it.
	Dir string

	// Listen is the address for clients, as host:port. The port 0 is any free port. The default is
	// 127.0.0.1:4222. Every client that reaches the address can use the server, because the server
	// asks for no password.
	Listen string

	// Name, Cluster, ClusterListen and Routes make the server a member of a cluster. Set all of them or,
	// for a server that stands alone, none except Name.
	Name          string   // differs from the names of all other members
	Cluster       string   // name of the cluster, the same for all members
	ClusterListen string   // address for the other members, as host:port
	Routes        []string // nats://host:port of the members; the server's own address does no harm

	// MaxBytes limits the size of all messages in files. A publisher gets the error "insufficient
	// resources" at the limit, until messages are deleted. Set it to less than the disk can take,
	// because the server stops writing for a while when the disk is full. The default is three quarters
	// of the free space and of the messages that Start finds, so it is low if the disk is nearly full.
	MaxBytes int64

	// SyncAlways makes the server call fsync before it acknowledges a message. By default it calls fsync
	// every two minutes, and a power failure loses the messages since then. The end of the process
	// loses no message.
	SyncAlways bool

	// Logger gets the messages of the server. The default is slog.Default().
	Logger *slog.Logger
}

// A Server is a NATS server inside this process.
type Server struct {
	dir     string
	log     *slog.Logger
	lock    *flock.Flock
	options *server.Options

	running *server.Server // owned by watch after Start; nil after a restart that failed
	logger  *logger        // of running

	stop     chan struct{} // closed by Stop
	stopOnce sync.Once
	done     chan struct{} // closed after the server has ended and the lock is released
}

// Start starts a server and returns when it takes connections. A member of a cluster does not wait for
// the other members.
func Start(cfg Config) (*Server, error) {
	o, err := options(cfg)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &Server{
		dir: cfg.Dir, log: cfg.Logger, options: o,
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s.lock = flock.New(filepath.Join(s.dir, "server.lock"))
	if ok, err := s.lock.TryLock(); err != nil {
		return nil, fmt.Errorf("server: lock %s: %w", s.dir, err)
	} else if !ok {
		return nil, fmt.Errorf("server: %s: %w", s.dir, ErrLocked)
	}
	err = tryWrite(s.dir) // a server that starts on a full disk takes no messages until it is restarted
	if err == nil {
		err = s.run()
	}
	if err != nil {
		s.lock.Unlock()
		return nil, fmt.Errorf("server: %w", err)
	}
	// The free space at a restart says nothing about the limit, so the first limit stays.
	s.options.JetStreamMaxStore = s.running.JetStreamConfig().MaxStore
	go s.watch()
	return s, nil
}

// URL returns the address for clients. It stays the same while the server runs.
func (s *Server) URL() string {
	host := s.options.Host
	switch host {
	case "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return "nats://" + net.JoinHostPort(host, strconv.Itoa(s.options.Port))
}

// Stop stops the server and returns after it has ended. Stop can be called more than once.
func (s *Server) Stop() {
	s.stopOnce.Do(func() { close(s.stop) })
	<-s.done
}

// run starts s.running, on the port that the server had before.
func (s *Server) run() error {
	srv, err := server.NewServer(s.options.Clone())
	if err != nil {
		return err
	}
	l := &logger{log: s.log}
	srv.SetLogger(l, false, false)
	srv.Start()
	for end := time.Now().Add(startLimit); !srv.ReadyForConnections(50 * time.Millisecond); {
		reason := l.fatal.Load()
		if reason == nil && time.Now().Before(end) {
			continue
		}
		srv.Shutdown()
		srv.WaitForShutdown()
		if reason == nil {
			return errors.New("the server takes no connections")
		}
		return errors.New(*reason)
	}
	s.running, s.logger = srv, l
	s.options.Port = srv.Addr().(*net.TCPAddr).Port
	return nil
}

func options(cfg Config) (*server.Options, error) {
	if cfg.Dir == "" {
		return nil, errors.New("Config.Dir is empty")
	}
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:4222"
	}
	host, port, err := splitAddress(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("Config.Listen: %w", err)
	}
	o := &server.Options{
		ServerName: cfg.Name, Host: host, Port: port,
		JetStream: true, StoreDir: cfg.Dir, JetStreamMaxStore: cfg.MaxBytes, SyncAlways: cfg.SyncAlways,
		NoSigs: true, DisableJetStreamBanner: true,
	}
	if len(cfg.Routes) == 0 && cfg.Cluster == "" && cfg.ClusterListen == "" {
		return o, nil
	}
	if len(cfg.Routes) == 0 || cfg.Name == "" || cfg.Cluster == "" || cfg.ClusterListen == "" {
		return nil, errors.New("a member of a cluster needs Name, Cluster, ClusterListen and Routes")
	}
	host, port, err = splitAddress(cfg.ClusterListen)
	if err != nil {
		return nil, fmt.Errorf("Config.ClusterListen: %w", err)
	}
	o.Cluster = server.ClusterOpts{Name: cfg.Cluster, Host: host, Port: port}
	for _, r := range cfg.Routes {
		u, err := url.Parse(r)
		if err != nil {
			return nil, fmt.Errorf("Config.Routes: %w", err)
		}
		o.Routes = append(o.Routes, u)
	}
	return o, nil
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
