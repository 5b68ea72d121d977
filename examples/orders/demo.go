package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// drainLimit bounds the wait until no order is open, in addition to the timeout of an order.
const drainLimit = 30 * time.Second

// A demo runs shops on one database, one process after another.
type demo struct {
	opts   options
	exe    string
	file   string
	stderr *lockedWriter

	acks   *acks
	starts []time.Time
	kills  int
}

// demonstrate runs the demonstration and prints the report, also when the run is interrupted. The error
// names the checks that fail.
func demonstrate(ctx context.Context, o options, stdout, stderr io.Writer) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	d := &demo{opts: o, exe: exe, file: o.db, stderr: &lockedWriter{w: stderr}, acks: newAcks()}
	if d.file == "" {
		dir, err := os.MkdirTemp("", "orders")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		d.file = filepath.Join(dir, "orders.db")
	}
	if err := d.run(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	if ctx.Err() != nil && len(d.acks.created) == 0 {
		return nil // there may be no database yet
	}
	c, err := readContents(d.file)
	if err != nil {
		return err
	}
	d.print(stdout, c)
	return verify(c, d.acks, ctx.Err() == nil)
}

// run runs all the shops. It kills each except the last one, which it drains. After an interruption it
// returns the error of the context.
func (d *demo) run(ctx context.Context) error {
	for d.kills < d.opts.kills {
		s, err := d.start(ctx)
		if err != nil {
			return err
		}
		life := time.Duration(2 * rand.Float64() * float64(d.opts.every))
		if err := s.wait(ctx, life); err != nil {
			return err
		}
		// SIGKILL: the shop has no chance to clean up.
		if err := s.cmd.Process.Kill(); err != nil {
			return errors.Join(err, s.wait(ctx, endLimit))
		}
		<-s.ended
		d.kills++
		fmt.Fprintf(d.stderr, "killed after %v, %d orders so far\n", life.Round(time.Millisecond), len(d.acks.created))
	}
	s, err := d.start(ctx)
	if err != nil {
		return err
	}
	if err := s.wait(ctx, d.opts.every); err != nil {
		return err
	}
	fmt.Fprintf(d.stderr, "no more orders; waiting until all orders have ended\n")
	io.WriteString(s.stdin, drainCommand+"\n") // if this fails the shop has ended, and wait returns an error
	switch err := s.wait(ctx, d.opts.timeout+drainLimit); {
	case err == nil:
		s.stdin.Close() // the shop is stuck, and verify names the open orders
		time.AfterFunc(endLimit, func() { s.cmd.Process.Kill() })
		return <-s.ended
	case errors.Is(err, errEnded) && s.cmd.ProcessState.Success():
		return nil
	default:
		return err
	}
}
