package hashedwheel_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A delivery is both a task and the schedule that says when to run it again.
type delivery struct {
	send  func() error
	pause time.Duration // before the next try
	tries int
	err   error
}

var errPanicked = errors.New("the try has panicked")

func (d *delivery) Run(*hashedwheel.Timeout) {
	d.tries++           // before send, because a try that panics counts too
	d.err = errPanicked // unless send returns
	d.err = d.send()
}

// Next is called before the first try, and after each try.
func (d *delivery) Next(prev time.Time) time.Time {
	switch {
	case d.tries == 0:
		return prev // now
	case d.err == nil || d.tries == 5:
		return time.Time{} // the end
	}
	d.pause *= 2
	return time.Now().Add(d.pause / 2)
}

// A delivery is tried up to five times: at once, and then after a pause that doubles. Its timeout stays pending until
// the last try, so WithMaxPending never refuses a try.
func ExampleTimer_Schedule_retry() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	errs := []error{errors.New("refused"), errors.New("unreachable"), nil}
	done := make(chan bool)
	d := &delivery{pause: 5 * time.Millisecond, send: func() error {
		err := errs[0]
		errs = errs[1:]
		fmt.Println("try:", err)
		if err == nil {
			close(done)
		}
		return err
	}}
	if _, err := timer.Schedule(d, d); err != nil {
		panic(err) // stopped, or too many pending
	}
	<-done
	// Output:
	// try: refused
	// try: unreachable
	// try: <nil>
}
