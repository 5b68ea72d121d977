package hashedwheel_test

import (
	"context"
	"fmt"
	"strings"
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

// A heartbeat, until it is canceled from inside. One handle stands for all runs.
func ExampleTimer_ScheduleAtFixedRate() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	beats := 0
	task := hashedwheel.TaskFunc(func(to *hashedwheel.Timeout) {
		beats++ // the runs never overlap
		fmt.Println("beat", beats)
		if beats == 3 {
			to.Cancel()
		}
	})
	heartbeat, err := timer.ScheduleAtFixedRate(task, 0, 5*time.Millisecond)
	if err != nil {
		panic(err)
	}
	time.Sleep(50 * time.Millisecond)
	fmt.Println("canceled:", heartbeat.IsCanceled())
	// Output:
	// beat 1
	// beat 2
	// beat 3
	// canceled: true
}

// A poll that rests for as long as it likes after each answer, however late that is.
func ExampleTimer_ScheduleWithFixedDelay() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	polls := make(chan int)
	n := 0
	_, err = timer.ScheduleWithFixedDelay(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {
		n++
		polls <- n // the delay begins when it has been received
	}), 0, 2*time.Millisecond)
	if err != nil {
		panic(err)
	}
	fmt.Println(<-polls, <-polls, <-polls)
	// Output: 1 2 3
}

// backoff is a Schedule of three runs, each after twice the time.
type backoff struct{ next time.Duration }

func (b *backoff) Next(prev time.Time) time.Time {
	if b.next > 4*time.Millisecond {
		return time.Time{} // the end
	}
	defer func() { b.next *= 2 }()
	return prev.Add(b.next)
}

func ExampleTimer_Schedule() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	tries, err := timer.Schedule(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {
		fmt.Println("try")
	}), &backoff{time.Millisecond})
	if err != nil {
		panic(err)
	}
	for !tries.IsExpired() {
		time.Sleep(time.Millisecond)
	}
	// Output:
	// try
	// try
	// try
}

// A thousand caches that are refreshed each minute, but not all at once.
func ExampleJitter() {
	timer, err := hashedwheel.New()
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	refresh := hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { /* ... */ })
	everyMinute := hashedwheel.Jitter(hashedwheel.Every(time.Minute), 0.1)
	for range 1000 {
		if _, err := timer.Schedule(refresh, everyMinute); err != nil {
			panic(err)
		}
	}
	fmt.Println(timer.Pending(), "pending, each due in 60 to 66 seconds")
	// Output: 1000 pending, each due in 60 to 66 seconds
}

// Once it is canceled, and Wait has returned, the task does not use the file any more.
func ExampleTimeout_Wait() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	var file strings.Builder
	flush, err := timer.ScheduleWithFixedDelay(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {
		file.WriteString("flushed ")
	}), 0, time.Millisecond)
	if err != nil {
		panic(err)
	}
	time.Sleep(20 * time.Millisecond)
	flush.Cancel()
	if err := flush.Wait(context.Background()); err != nil {
		fmt.Println("still running:", err)
		return
	}
	file.WriteString("closed")
	fmt.Println(strings.HasSuffix(file.String(), "flushed closed"))
	// Output: true
}
