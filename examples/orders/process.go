package main

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"
	"time"
)

// endLimit is how long a shop may take to end after it was told to. Then it is killed.
const endLimit = 5 * time.Second

// errEnded is returned when a shop ends although it was not told to.
var errEnded = errors.New("the second process has ended too soon")

// A process is a running shop.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan error // receives the result of Wait, after all output has been read
}

// start starts a shop. When ctx is canceled the shop is told to end.
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

// wait returns nil after d. It returns an error if the shop ends before. If ctx is canceled, it waits for
// the shop to end and returns the error of ctx.
func (s *process) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		<-s.ended // the result does not matter: even a kill does no harm
		return ctx.Err()
	case err := <-s.ended:
		// Ctrl-C goes to both processes, and may have reached the shop first.
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
