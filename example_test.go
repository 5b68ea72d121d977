package hashedwheel_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A timeout for a request: if the reply comes first, Cancel, and the task never starts.
func ExampleTimer_NewTimeout() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	done := make(chan string)
	task := hashedwheel.TaskFunc(func(to *hashedwheel.Timeout) {
		done <- fmt.Sprint("timed out, expired: ", to.IsExpired())
	})
	answered, _ := timer.NewTimeout(task, time.Second)
	lost, _ := timer.NewTimeout(task, 20*time.Millisecond)

	fmt.Println("canceled in time:", answered.Cancel())
	fmt.Println(<-done)
	fmt.Println("canceled in time:", lost.Cancel())
	// Output:
	// canceled in time: true
	// timed out, expired: true
	// canceled in time: false
}

func ExampleTimer_AfterFunc() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	done := make(chan bool)
	if _, err := timer.AfterFunc(5*time.Millisecond, func() { close(done) }); err != nil {
		fmt.Println(err) // stopped, or too many pending
	}
	<-done
	fmt.Println("five milliseconds have passed")
	// Output:
	// five milliseconds have passed
}

// An idle limit: each packet moves the deadline, at the price of a reading of the clock and
// one compare-and-swap.
func ExampleTimeout_Reset() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	closed := make(chan bool)
	idle, _ := timer.AfterFunc(time.Minute, func() { close(closed) })
	for range 3 { // packets
		active, err := idle.Reset(time.Minute)
		fmt.Println(active, err)
	}
	idle.Reset(0)
	<-closed

	active, err := idle.Reset(time.Minute) // it has expired, and is pending again
	fmt.Println(active, err, timer.Pending())
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
	// false <nil> 1
}

// Stop hands back what was pending: run it now, store it, or drop it.
func ExampleTimer_Stop() {
	timer, err := hashedwheel.New()
	if err != nil {
		panic(err)
	}
	timer.AfterFunc(time.Hour, func() { fmt.Println("flushed") })

	for _, to := range timer.Stop() {
		to.Task().Run(to)
	}
	_, err = timer.AfterFunc(time.Hour, func() {})
	fmt.Println(err)
	// Output:
	// flushed
	// hashedwheel: timer is stopped
}

// Shutdown is Stop for a program that wants to see its tasks through.
func ExampleTimer_Shutdown() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	started := make(chan bool)
	timer.AfterFunc(0, func() {
		close(started)
		time.Sleep(10 * time.Millisecond)
		fmt.Println("the task is done")
	})
	timer.AfterFunc(time.Hour, func() {})
	<-started

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	left, err := timer.Shutdown(ctx)
	fmt.Println(len(left), "pending,", err)
	// Output:
	// the task is done
	// 1 pending, <nil>
}

// A job is a Task and a Canceler: it learns of either end.
type job struct {
	name string
	over chan bool
}

func (j *job) Run(*hashedwheel.Timeout)      { fmt.Println(j.name, "has run"); close(j.over) }
func (j *job) Canceled(*hashedwheel.Timeout) { fmt.Println(j.name, "was canceled"); close(j.over) }

func ExampleCanceler() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	backup := &job{"backup", make(chan bool)}
	to, _ := timer.NewTimeout(backup, time.Hour)
	to.Cancel()
	<-backup.over

	flush := &job{"flush", make(chan bool)}
	timer.NewTimeout(flush, time.Millisecond)
	<-flush.over
	// Output:
	// backup was canceled
	// flush has run
}

// An executor is any function that has another one called: here a goroutine for each task.
func ExampleWithExecutor() {
	timer, err := hashedwheel.New(
		hashedwheel.WithTick(time.Millisecond),
		hashedwheel.WithExecutor(func(run func()) error {
			go run()
			return nil
		}),
	)
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	done := make(chan bool)
	timer.AfterFunc(time.Millisecond, func() { close(done) })
	<-done
	fmt.Println("run by the executor")
	// Output:
	// run by the executor
}
