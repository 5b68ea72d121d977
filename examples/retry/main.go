// Retry delivers messages to a service that often fails. It tries again with exponential backoff and full jitter, and
// gives up after eight tries.
//
// Look at delivery: it is the task of a timeout, and also the schedule that says when the next try is due. A delivery
// that waits has no goroutine. A repeating timeout keeps its slot, so WithMaxPending never refuses a retry. If the task
// called Reset instead, another timeout could take the slot meanwhile. Function run makes the deliveries.
//
// Each try has a timeout of its own, in function try. It comes from package clock, because the timer has a limit: tries
// that wait for a task of the same timer could wait for ever, but package clock needs no task.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
)

const (
	maxTries  = 8
	firstWait = 100 * time.Millisecond
	maxWait   = time.Second
	tryTime   = 200 * time.Millisecond // for one try
)

var (
	errPanicked = errors.New("the try has panicked")
	errTryTime  = errors.New("the try has timed out")
)

// A delivery is a message that is sent until the service accepts it, or maxTries have failed.
type delivery struct {
	send  func(ctx context.Context) error
	clock *clock.Clock // on the same timer
	tries int
	err   error            // of the last try
	ended chan<- *delivery // never blocks
}

// Run makes one try. A try that panics has failed.
func (d *delivery) Run(*hashedwheel.Timeout) {
	d.tries++
	d.err = errPanicked // unless send returns
	defer func() {
		if d.over() {
			d.ended <- d
		}
	}()
	d.err = d.try()
}

// try sends the message. If that takes too long, it cancels the context.
func (d *delivery) try() error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer d.clock.AfterFunc(tryTime, func() { cancel(errTryTime) }).Stop()
	return d.send(ctx)
}

// Next returns when the next try is due. The timer calls it before the first try and after each one.
func (d *delivery) Next(time.Time) time.Time {
	switch {
	case d.tries == 0:
		return time.Now()
	case d.over():
		return time.Time{} // the timeout ends
	}
	return time.Now().Add(backoff(d.tries))
}

func (d *delivery) over() bool { return d.tries == maxTries || d.tries > 0 && d.err == nil }

// backoff returns how long to wait after a number of tries that have failed. The longest wait doubles with each try.
// All of it is random, so that deliveries that failed together are not tried together again.
func backoff(tries int) time.Duration {
	longest := firstWait << min(tries-1, 20) // more would overflow
	return rand.N(min(longest, maxWait))
}

// A service takes a few milliseconds for each message. It refuses some, and some it never answers.
type service struct {
	failing  float64 // the fraction that it refuses
	hanging  float64 // the fraction that it does not answer
	accepted atomic.Uint64
}

func (s *service) send(ctx context.Context) error {
	if rand.Float64() < s.hanging {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	time.Sleep(rand.N(5 * time.Millisecond))
	if rand.Float64() < s.failing {
		return errors.New("service unavailable")
	}
	s.accepted.Add(1)
	return nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := demo.Flags("retry", "delivers messages to a service that often fails.")
	n := flags.Uint("n", 5000, "how many `deliveries`")
	failing := flags.Float64("failing", 0.5, "the `fraction` of tries that fail")
	hanging := flags.Float64("hanging", 0.01, "the `fraction` of tries without an answer")
	if err := demo.Parse(flags, args, out); err != nil {
		return err
	}
	// A send blocks its task, so 64 are in progress at most. WithMaxPending bounds deliveries that have not ended, and
	// the timeouts of tries.
	const limit = 64
	timer, err := hashedwheel.New(hashedwheel.WithTick(10*time.Millisecond), hashedwheel.WithMaxConcurrency(limit),
		hashedwheel.WithMaxPending(int(*n)+limit))
	if err != nil {
		return err
	}
	defer timer.Shutdown(context.Background()) // also waits for the tries in progress
	s := service{failing: *failing, hanging: *hanging}
	onTimer := clock.New(timer)
	ended := make(chan *delivery, *n)
	for range *n {
		d := &delivery{send: s.send, clock: onTimer, ended: ended}
		if _, err := timer.Schedule(d, d); err != nil {
			return err
		}
	}
	var delivered [maxTries + 1]uint // by the number of tries
	givenUp := *n
	for range *n {
		select {
		case d := <-ended:
			if d.err == nil {
				delivered[d.tries]++
				givenUp--
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for tries, count := range delivered[1:] {
		fmt.Fprintf(out, "delivered by try %d: %d\n", tries+1, count)
	}
	fmt.Fprintf(out, "given up after try %d: %d\n", maxTries, givenUp)
	if uint64(*n-givenUp) != s.accepted.Load() {
		return fmt.Errorf("%d messages delivered, but the service has accepted %d", *n-givenUp, s.accepted.Load())
	}
	return nil
}

func main() { demo.Main(run) }
