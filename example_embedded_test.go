package hashedwheel_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A request holds its timeout, and is the task of that timeout.
type request struct {
	timeout hashedwheel.Timeout
	lost    chan string
}

func (r *request) Run(*hashedwheel.Timeout) { r.lost <- "timed out" }

// The timeout is a field of a struct that comes from a pool. So arming it allocates nothing.
func ExampleTimer_Init() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	lost := make(chan string)
	requests := sync.Pool{New: func() any {
		r := &request{lost: lost}
		timer.Init(&r.timeout, r)
		return r
	}}
	for range 3 {
		r := requests.Get().(*request)
		if _, err := r.timeout.Reset(time.Minute); err != nil {
			panic(err) // stopped, or too many pending
		}
		if r.timeout.Cancel() { // the reply has come: the task never starts
			requests.Put(r)
		}
	}
	r := requests.Get().(*request)
	if _, err := r.timeout.Reset(5 * time.Millisecond); err != nil {
		panic(err)
	}
	fmt.Println(<-lost, timer.Pending())
	// Output: timed out 0
}

// Many timeouts have the same deadline, so the program reads the clock only once.
func ExampleTimeout_ResetAt() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	requests := make([]request, 3)
	lost := make(chan string)
	deadline := time.Now().Add(5 * time.Millisecond)
	for i := range requests {
		r := &requests[i]
		r.lost = lost
		timer.Init(&r.timeout, r)
		if _, err := r.timeout.ResetAt(deadline); err != nil {
			panic(err) // stopped, or too many pending
		}
	}
	for range requests {
		fmt.Println(<-lost, !time.Now().Before(deadline))
	}
	// Output:
	// timed out true
	// timed out true
	// timed out true
}

// A call has a deadline, such as that of a context, instead of a delay.
func ExampleTimer_NewTimeoutAt() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	deadline := time.Now().Add(5 * time.Millisecond)
	early := make(chan bool)
	task := hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { early <- time.Now().Before(deadline) })
	if _, err := timer.NewTimeoutAt(task, deadline); err != nil {
		panic(err) // stopped, or too many pending
	}
	fmt.Println("early:", <-early)

	// A deadline that has passed counts as a delay of zero.
	if _, err := timer.NewTimeoutAt(task, deadline); err != nil {
		panic(err)
	}
	fmt.Println("early:", <-early)
	// Output:
	// early: false
	// early: false
}

// An idle limit that has expired is not armed again.
func ExampleTimeout_Move() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	closed := make(chan bool)
	idle, err := timer.AfterFunc(time.Minute, func() { close(closed) })
	if err != nil {
		panic(err) // stopped, or too many pending
	}
	fmt.Println("a packet in time:", idle.Move(5*time.Millisecond))
	<-closed
	fmt.Println("a packet too late:", idle.Move(5*time.Millisecond))
	fmt.Println("pending:", timer.Pending())
	// Output:
	// a packet in time: true
	// a packet too late: false
	// pending: 0
}
