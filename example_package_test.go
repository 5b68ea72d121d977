package hashedwheel_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A call ends with its reply or with its timeout. One timer serves all calls.
func Example() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond))
	if err != nil {
		panic(err)
	}
	call := func(replies <-chan string, limit time.Duration) (string, error) {
		failed := make(chan error, 1)
		timeout, err := timer.AfterFunc(limit, func() { failed <- errors.New("timed out") })
		if err != nil {
			return "", err // the timer is stopped, or too many timeouts are pending
		}
		select {
		case reply := <-replies:
			timeout.Cancel() // returns false if the reply comes together with the timeout: it is good all the same
			return reply, nil
		case err := <-failed:
			return "", err
		}
	}
	replies := make(chan string, 1)
	replies <- "hello"
	fmt.Println(call(replies, time.Minute))
	fmt.Println(call(replies, 20*time.Millisecond)) // no reply comes
	// Output:
	// hello <nil>
	//  timed out
}

// A program has one timer. Only options that differ from the defaults are given.
func ExampleNew() {
	timer, err := hashedwheel.New(
		hashedwheel.WithTick(10*time.Millisecond), // late by less than this
		hashedwheel.WithLevels(2),                 // for delays of up to 22 minutes, and for a few longer ones
		hashedwheel.WithMaxPending(1_000_000),     // one more timeout is refused
	)
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	_, err = hashedwheel.New(hashedwheel.WithTick(0))
	fmt.Println(err)
	// Output: hashedwheel: WithTick(0s): the tick must be positive
}

// Stats counts how the timeouts of a timer ended. To watch a running program, publish the Stats:
//
//	expvar.Publish("timer", expvar.Func(func() any { return timer.Stats() }))
func ExampleTimer_Stats() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	done := make(chan bool)
	for _, delay := range []time.Duration{time.Millisecond, time.Hour, 2 * time.Hour} {
		to, err := timer.AfterFunc(delay, func() { close(done) })
		if err != nil {
			panic(err) // stopped, or too many pending
		}
		if delay == time.Hour {
			to.Cancel()
		}
	}
	<-done
	st := timer.Stats()
	fmt.Println("accepted:", st.Accepted)
	fmt.Println("expired:", st.Expired, "canceled:", st.Canceled, "pending:", st.Pending)
	// Output:
	// accepted: 3
	// expired: 1 canceled: 1 pending: 1
}

// With a limit, a timeout too many is refused at once, so that memory does not grow. The caller decides what
// to do then.
func ExampleWithMaxPending() {
	timer, err := hashedwheel.New(hashedwheel.WithMaxPending(2))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	var first *hashedwheel.Timeout
	for range 3 {
		to, err := timer.AfterFunc(time.Hour, func() {})
		if errors.Is(err, hashedwheel.ErrTooManyPending) {
			fmt.Println("refused,", timer.Pending(), "are pending")
			first.Cancel() // frees its slot
			continue
		}
		if first == nil {
			first = to
		}
	}
	_, err = timer.AfterFunc(time.Hour, func() {})
	fmt.Println(err)
	// Output:
	// refused, 2 are pending
	// <nil>
}
