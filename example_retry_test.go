package hashedwheel_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A delivery is tried up to five times: at once, then after a pause that doubles. It is a task, and the
// schedule that says when to run it again.
type delivery struct {
	send  func() error
	pause time.Duration
	tries int
	err   error
}

// Run is one try.
func (d *delivery) Run(*hashedwheel.Timeout) {
	d.tries++
	d.err = d.send()
	fmt.Printf("try %d: %v\n", d.tries, d.err)
}

// Next is called before the first try, and when one is over.
func (d *delivery) Next(prev time.Time) time.Time {
	switch {
	case d.tries == 0:
		return prev // the present
	case d.err == nil || d.tries == 5:
		return time.Time{} // no more
	}
	pause := d.pause
	d.pause *= 2
	return time.Now().Add(pause) // counted from the end of the try
}

// A retry with backoff that keeps its slot. As a repeating timeout it stays pending until it ends, so that
// no try is refused, however full the timer is. A Reset from inside the task of a plain timeout might be.
func ExampleWithMaxPending_retry() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond), hashedwheel.WithMaxPending(1))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	failures := 2
	d := &delivery{pause: 5 * time.Millisecond, send: func() error {
		if _, err := timer.AfterFunc(time.Hour, func() {}); err != nil {
			fmt.Println("meanwhile others get:", err)
		}
		if failures--; failures >= 0 {
			return errors.New("connection refused")
		}
		return nil
	}}
	retry, err := timer.Schedule(d, d)
	if err != nil {
		panic(err) // stopped, or too many pending
	}
	for !retry.IsExpired() {
		time.Sleep(time.Millisecond)
	}
	retry.Wait(context.Background()) // its last run is over, and its slot is free
	_, err = timer.AfterFunc(time.Hour, func() {})
	fmt.Println("afterwards:", err)
	// Output:
	// meanwhile others get: hashedwheel: too many pending timeouts
	// try 1: connection refused
	// meanwhile others get: hashedwheel: too many pending timeouts
	// try 2: connection refused
	// meanwhile others get: hashedwheel: too many pending timeouts
	// try 3: <nil>
	// afterwards: <nil>
}
