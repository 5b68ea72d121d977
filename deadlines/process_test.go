//go:build unix

package deadlines_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// childVariable makes the test binary a server or a worker. Its value is a childSpec in JSON.
const childVariable = "HASHEDWHEEL_DEADLINES_CHILD"

type childSpec struct {
	Server *serverSpec
	Worker *workerSpec
}

type serverSpec struct {
	Name                string
	Port, Route, Health int
	Routes              []string
	Dir                 string
}

type workerSpec struct {
	URLs  string
	Calls string // the file to which the handler appends
	Lease time.Duration
	Dies  string // the key whose handler ends the process
}

// The child is started here and not in TestMain, so that it runs no code of other tests. It ends when its standard
// input ends, because the parent holds the other end of that pipe. If the parent dies while the child is stopped,
// the kernel continues it, because its process group is then an orphan.
func init() {
	value := os.Getenv(childVariable)
	if value == "" {
		return
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	var spec childSpec
	err := json.Unmarshal([]byte(value), &spec)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	switch {
	case err != nil:
	case spec.Server != nil:
		err = spec.Server.run(ctx)
	default:
		err = spec.Worker.run(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (s *serverSpec) run(ctx context.Context) error {
	o := &server.Options{
		ServerName: s.Name, Host: "127.0.0.1", Port: s.Port, HTTPHost: "127.0.0.1", HTTPPort: s.Health,
		JetStream: true, StoreDir: s.Dir, NoSigs: true, Logtime: true,
		// Clients that knew the ports of all servers would get around the proxies.
		Cluster: server.ClusterOpts{Name: "storm", Host: "127.0.0.1", Port: s.Route, NoAdvertise: true},
	}
	for _, r := range s.Routes {
		u, err := url.Parse(r)
		if err != nil {
			return err
		}
		o.Routes = append(o.Routes, u)
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return err
	}
	srv.ConfigureLogger()
	srv.Start()
	<-ctx.Done()
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil
}

// run works until it is told to end. The handler appends a line when it is called and one before it returns, each
// by one write, so that they survive a kill.
func (w *workerSpec) run(ctx context.Context) error {
	calls, err := os.OpenFile(w.Calls, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	nc, err := deadlines.Connect(w.URLs)
	for err != nil && ctx.Err() == nil { // the servers may be away
		time.Sleep(100 * time.Millisecond)
		nc, err = deadlines.Connect(w.URLs)
	}
	if err != nil {
		return err
	}
	cfg := deadlines.Config{
		Lease: w.Lease, Retain: -1, MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Second, Logger: log,
	}
	s, err := deadlines.Open(ctx, nc, cfg)
	for err != nil && ctx.Err() == nil {
		log.Warn("open", "err", err)
		s, err = deadlines.Open(ctx, nc, cfg)
	}
	if err != nil {
		return err
	}
	err = s.Work(ctx, func(_ context.Context, d deadlines.Deadline) error {
		now := time.Now()
		line := fmt.Sprintf("%s %d %d", d.Key, d.At.UnixNano(), d.Attempts)
		fmt.Fprintf(calls, "call %s %d\n", line, now.UnixNano())
		if d.Key == w.Dies {
			os.Exit(3)
		}
		switch n := rand.N(1000); {
		case n < 5:
			time.Sleep(w.Lease * 5 / 4)
		case n < 100:
			time.Sleep(rand.N(300 * time.Millisecond))
		}
		if rand.N(20) == 0 {
			fmt.Fprintf(calls, "failed %s %d\n", line, time.Now().UnixNano())
			return errors.New("a failure of the test")
		}
		fmt.Fprintf(calls, "ok %s %d\n", line, time.Now().UnixNano())
		return nil
	})
	s.Close()
	nc.Close()
	return err
}

// A process is a child. It ends with the test.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	input io.Closer
	log   string // its standard output and error
	ended chan struct{}
	err   error // after ended
}

func startProcess(t *testing.T, log string, spec childSpec) *process {
	t.Helper()
	value, err := json.Marshal(spec)
	require.NoError(t, err)
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer output.Close()
	p := &process{t: t, cmd: exec.Command(os.Args[0]), log: log, ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(value))
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.input, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the process at once. It may be stopped, or have ended.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// pause stops the process for a while.
func (p *process) pause(d time.Duration) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(d)
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGCONT))
}

// finish asks the process to end, and returns what it exits with.
func (p *process) finish() error {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.ended:
		return p.err
	case <-time.After(patience):
		return fmt.Errorf("it has not ended in %v", patience)
	}
}

// fileLogger returns a logger that writes to a file.
func fileLogger(t *testing.T, name string) *slog.Logger {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return slog.New(slog.NewTextHandler(f, nil))
}

// A call is one of the handler, as a worker logged it.
type call struct {
	key     string
	at      int64
	attempt int
	now     int64
	kind    string // call, ok or failed
	worker  string // the file
}

// readCalls reads the files of all workers.
func readCalls(t *testing.T, pattern string) (all []call) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			c := call{worker: strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))}
			_, err := fmt.Sscan(lines.Text(), &c.kind, &c.key, &c.at, &c.attempt, &c.now)
			require.NoError(t, err, lines.Text())
			all = append(all, c)
		}
		f.Close()
	}
	return all
}
