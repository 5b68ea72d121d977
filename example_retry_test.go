package hashedwheel_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A delivery is tried up to five times: at once, and then after a pause that doubles each time. It is both the task
// and the schedule that says when to run the task again.
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

// Next is called before the first try, and after each try.
func (d *delivery) Next(prev time.Time) time.Time {
	switch {
	case d.tries == 0:
		return prev // now
	case d.err == nil || d.tries == 5:
		return time.Time{} // no more tries
	}
	pause := d.pause
	d.pause *= 2
	return time.Now().Add(pause) // counted from the end of the try
}

// A retry with backoff keeps its slot. It is a repeating timeout, which stays pending until it ends. So no try is
// refused, even if the timer is full. With a plain timeout that its task resets, the Reset could be refused.
func ExampleWithMaxPending_retry() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond), hashedwheel.WithMaxPending(1))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	failures := 2
	d := &delivery{pause: 5 * time.Millisecond, send: func() error {
		if _, err := timer.AfterFunc(time.Hour, func() {}); err != nil {
			fmt.Println("another timeout meanwhile:", err)
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
	retry.Wait(context.Background()) // until its last run has ended, and its slot is free
	_, err = timer.AfterFunc(time.Hour, func() {})
	fmt.Println("afterwards:", err)
	// Output:
	// another timeout meanwhile: hashedwheel: too many pending timeouts
	// try 1: connection refused
	// another timeout meanwhile: hashedwheel: too many pending timeouts
	// try 2: connection refused
	// another timeout meanwhile: hashedwheel: too many pending timeouts
	// try 3: <nil>
	// afterwards: <nil>
}
