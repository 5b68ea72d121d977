package main

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"
	"time"
)

// endLimit is the time for a shop to end that was told to. Then it is killed.
const endLimit = 5 * time.Second

// errEnded is the failure of a shop that nobody has ended.
var errEnded = errors.New("the shop has ended by itself")

// A process is a shop that runs.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan error // has its outcome when all of its output has been read
}

// start starts a shop. If ctx is canceled it is told to end.
func (d *demo) start(ctx context.Context) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, d.exe, d.opts.shopArgs(d.file)...)
	cmd.Stdout = &lineReader{acks: d.acks}
	cmd.Stderr = d.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Cancel = stdin.Close
	cmd.WaitDelay = endLimit
	d.starts = append(d.starts, time.Now())
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &process{cmd: cmd, stdin: stdin, ended: make(chan error, 1)}
	go func() { s.ended <- cmd.Wait() }()
	return s, nil
}

// wait returns nil when a time has passed. If the shop has ended before, that is an error, and if
// ctx is canceled the context's, when the shop has ended.
func (s *process) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		<-s.ended // in whatever way: a kill does no harm
		return ctx.Err()
	case err := <-s.ended:
		// Ctrl-C is for both processes, and may have reached that one first.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
			return errors.Join(errEnded, err)
		}
	}
}

// A lockedWriter is shared by this process and its shops.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
