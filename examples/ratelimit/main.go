// Ratelimit sends events of three keys through a throttle and a debounce, and prints how many calls each has made.
// Look at throttle.go and debounce.go, which are the types to copy, and at serve, here, which makes and uses them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
)

const (
	tick     = 10 * time.Millisecond
	interval = 250 * time.Millisecond // of the throttle
	quiet    = 100 * time.Millisecond // of the debounce
	maxWait  = 500 * time.Millisecond
)

// serve sends the events of each stream to a throttle and a debounce, until ctx is done. Then it waits for the calls
// that they delay. A stream is a key, and the number of an event is the value.
func serve(ctx context.Context, streams []*stream) error {
	timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
	if err != nil {
		return err
	}
	throttle := NewThrottle(timer, interval, true, func(s *stream, n int) { s.called(&s.throttle, n) })
	debounce := NewDebounce(timer, quiet, maxWait, func(s *stream, n int) { s.called(&s.debounce, n) })
	var wg sync.WaitGroup
	for _, s := range streams {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil && s.err == nil; n++ {
				s.sent = append(s.sent, time.Now())
				_, err := throttle.Call(s, n)
				s.err = errors.Join(err, debounce.Call(s, n))
				pause := 7 * time.Millisecond
				if (n+1)%s.burst == 0 {
					pause = s.pause
				}
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
		})
	}
	wg.Wait()
	for throttle.Kept()+debounce.Waiting() > 0 {
		time.Sleep(tick)
	}
	_, err = timer.Shutdown(context.Background()) // waits for calls in progress
	return err
}

// A stream is a key, its events, and the calls that the limiters made for it.
type stream struct {
	key   string
	burst int           // events with short pauses
	pause time.Duration // after each burst
	sent  []time.Time   // when each event was sent
	err   error

	mu                 sync.Mutex
	throttle, debounce []call
}

// A call is made for event n.
type call struct {
	n  int
	at time.Time
}

func (s *stream) called(calls *[]call, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*calls = append(*calls, call{n, time.Now()})
}

// check returns an error if a limiter has broken a promise: a call came too soon, or there was none for the last event.
func (s *stream) check() error {
	promises := func(limiter string, calls []call, soon func(prev, c call) bool) error {
		prev := call{n: -1}
		for _, c := range calls {
			if c.n <= prev.n || soon(prev, c) {
				return fmt.Errorf("%s of %s: the call for event %d came too soon, or again", limiter, s.key, c.n)
			}
			prev = c
		}
		if last := len(s.sent) - 1; prev.n != last {
			return fmt.Errorf("%s of %s: the last call was for event %d of %d", limiter, s.key, prev.n, last)
		}
		return nil
	}
	return errors.Join(s.err,
		promises("throttle", s.throttle, func(prev, c call) bool { return c.at.Sub(prev.at) < interval }),
		promises("debounce", s.debounce, func(prev, c call) bool {
			return c.at.Sub(s.sent[c.n]) < quiet && c.at.Sub(s.sent[prev.n+1]) < maxWait
		}))
}

func main() { demo.Main(run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := demo.Flags("ratelimit", "limits the calls for each key, by a throttle and by a debounce")
	length := flags.Duration("for", 3*time.Second, "how `long` to send events")
	if err := demo.Parse(flags, args, out); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *length)
	defer cancel()
	streams := []*stream{
		{key: "steady", burst: 1, pause: 7 * time.Millisecond},
		{key: "bursts", burst: 20, pause: 400 * time.Millisecond},
		{key: "rare", burst: 1, pause: 600 * time.Millisecond},
	}
	err := serve(ctx, streams)
	rows := [][]any{{"key", "events", "calls of throttle", "of debounce"}}
	for _, s := range streams {
		rows = append(rows, []any{s.key, len(s.sent), len(s.throttle), len(s.debounce)})
		err = errors.Join(err, s.check())
	}
	demo.Table(out, rows...)
	return err
}
