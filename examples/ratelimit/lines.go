package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// followLines reads each line of r as an event with a key and a value, and prints
// a line for each call. It ends at the end of r, or when ctx is canceled.
func followLines(ctx context.Context, o options, r io.Reader, stdout io.Writer) error {
	var mu sync.Mutex // guards stdout
	began := time.Now()
	show := func(limiter string) func(string, event) {
		return func(key string, e event) {
			mu.Lock()
			defer mu.Unlock()
			line := fmt.Sprintf("%9.3fs  %-8s  %s %s", time.Since(began).Seconds(), limiter, key, e.text)
			fmt.Fprintln(stdout, strings.TrimRight(line, " "))
		}
	}
	l, err := newLimiters(o, show("throttle"), show("debounce"))
	if err != nil {
		return err
	}
	defer l.timer.Stop()
	err = eachLine(ctx, r, func(line string) error {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if key == "" {
			return nil
		}
		return l.changed(key, strings.TrimSpace(value))
	})
	if err = errors.Join(err, l.drain()); err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	l.print(stdout)
	return l.check()
}

// eachLine calls f with each line of r. If ctx is canceled first, it leaves a
// goroutine behind that waits for the next line.
func eachLine(ctx context.Context, r io.Reader, f func(string) error) error {
	lines := make(chan string)
	failed := make(chan error, 1)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(r)
		for s.Scan() {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
		failed <- s.Err()
	}()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				select {
				case err := <-failed:
					return err
				default:
					return nil // interrupted
				}
			}
			if err := f(line); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
