package hashedwheel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

// The examples show programs as a reader would write them. So they sleep on real time, for some milliseconds.
// Their output does not depend on how long the sleeps take.

// A request has a timeout. If the reply comes first, Cancel returns true, and the task never starts.
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
	answered, _ := timer.NewTimeout(task, time.Minute)
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

// Each packet moves the deadline of an idle limit. This costs one reading of the clock and one compare-and-swap.
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

	active, err := idle.Reset(time.Minute) // the timeout had expired, and is pending again
	fmt.Println(active, err, timer.Pending())
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
	// false <nil> 1
}

// Stop returns the pending timeouts. The caller can run their tasks now, store them, or drop them.
func ExampleTimer_Stop() {
	timer, err := hashedwheel.New()
	if err != nil {
		panic(err)
	}
	timer.AfterFunc(time.Hour, func() { fmt.Println("flushed") })

	for _, to := range timer.Stop() {
		if to.Cancel() { // otherwise somebody else has canceled it since
			to.Task().Run(to)
		}
	}
	_, err = timer.AfterFunc(time.Hour, func() {})
	fmt.Println(err)
	// Output:
	// flushed
	// hashedwheel: timer is stopped
}

// Shutdown is Stop, except that it also waits for running tasks.
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

// The tasks share a context, which ends when the timer is shut down. Stop comes first, so that no task starts with a context
// that has ended. Shutdown waits for the tasks that are running.
func ExampleTimer_Shutdown_context() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	query := func(ctx context.Context) error { // a call that takes long, such as a query of a database
		<-ctx.Done()
		return ctx.Err()
	}
	started := make(chan bool)
	timer.AfterFunc(0, func() {
		close(started)
		fmt.Println("query:", query(ctx))
	})
	<-started

	timer.Stop()
	cancel()
	wait, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	_, err = timer.Shutdown(wait)
	fmt.Println("shutdown:", err)
	// Output:
	// query: context canceled
	// shutdown: <nil>
}

// A job is a Task and a Canceler. One of its two methods is called at its end.
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

// An executor is a function that runs another function. This one starts a goroutine for each task.
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

// A heartbeat repeats until its task cancels it. One handle stands for all runs.
func ExampleTimer_ScheduleAtFixedRate() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	beats, done := 0, make(chan bool)
	task := hashedwheel.TaskFunc(func(to *hashedwheel.Timeout) {
		beats++ // the runs never overlap
		fmt.Println("beat", beats)
		if beats == 3 {
			to.Cancel()
			close(done)
		}
	})
	heartbeat, err := timer.ScheduleAtFixedRate(task, 0, 5*time.Millisecond)
	if err != nil {
		panic(err)
	}
	<-done
	fmt.Println("canceled:", heartbeat.IsCanceled())
	// Output:
	// beat 1
	// beat 2
	// beat 3
	// canceled: true
}

// A task learns when its run was due, even if it starts late. Here the first run takes so long that the next two are late.
func ExampleTimeout_Deadline() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	var first time.Time
	runs, done := 0, make(chan bool)
	report := hashedwheel.TaskFunc(func(to *hashedwheel.Timeout) {
		due := to.Deadline()
		if runs == 0 {
			first = due
			time.Sleep(50 * time.Millisecond)
		}
		fmt.Println("report of", due.Sub(first))
		if runs++; runs == 4 {
			to.Cancel()
			close(done)
		}
	})
	if _, err := timer.ScheduleAtFixedRate(report, 0, 20*time.Millisecond); err != nil {
		panic(err)
	}
	<-done
	// Output:
	// report of 0s
	// report of 20ms
	// report of 40ms
	// report of 60ms
}

// A poll waits for the same time after each run, however long the run took.
func ExampleTimer_ScheduleWithFixedDelay() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	polls := make(chan int)
	n := 0
	_, err = timer.ScheduleWithFixedDelay(hashedwheel.TaskFunc(func(to *hashedwheel.Timeout) {
		n++
		polls <- n // the delay begins after n has been received
		if n == 3 {
			to.Cancel()
		}
	}), 0, 2*time.Millisecond)
	if err != nil {
		panic(err)
	}
	fmt.Println(<-polls, <-polls, <-polls)
	// Output: 1 2 3
}

// backoff is a Schedule of three runs. Each pause is twice as long as the one before.
type backoff struct{ next time.Duration }

func (b *backoff) Next(prev time.Time) time.Time {
	if b.next > 4*time.Millisecond {
		return time.Time{} // ends the timeout
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

// atMost is a Task that ends its repeating timeout after a number of runs.
type atMost struct {
	hashedwheel.Task
	left int // runs; they never overlap, so there is no lock
}

func (a *atMost) Run(to *hashedwheel.Timeout) {
	if a.left--; a.left == 0 {
		to.Cancel() // first, because the task may panic
	}
	a.Task.Run(to)
}

// A task runs three times, at multiples of the interval. A schedule that wraps Every could end it too, but would have no fixed
// interval.
func ExampleEvery() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	poll := hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { fmt.Println("poll") })
	polls, err := timer.Schedule(&atMost{poll, 3}, hashedwheel.Every(2*time.Millisecond))
	if err != nil {
		panic(err)
	}
	for !polls.IsCanceled() {
		time.Sleep(time.Millisecond)
	}
	if err := polls.WaitRunning(context.Background()); err != nil { // for the last run
		panic(err)
	}
	// Output:
	// poll
	// poll
	// poll
}

// A thousand caches are refreshed each minute, but not all at the same time.
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

// After Cancel and WaitRunning have returned, the task no longer uses the file.
func ExampleTimeout_WaitRunning() {
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
	for timer.Stats().Expired < 3 { // runs
		time.Sleep(time.Millisecond)
	}
	flush.Cancel()
	if err := flush.WaitRunning(context.Background()); err != nil {
		fmt.Println("still running:", err)
		return
	}
	file.WriteString("closed")
	fmt.Println(strings.HasSuffix(file.String(), "flushed closed"))
	// Output: true
}

// When a connection closes, its group cancels the timeouts of the connection.
func ExampleGroup() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	connection := hashedwheel.NewGroup(timer)
	if _, err := connection.AfterFunc(30*time.Second, func() { fmt.Println("idle") }); err != nil {
		panic(err)
	}
	ping := hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { fmt.Println("ping") })
	if _, err := connection.Schedule(ping, hashedwheel.Every(time.Minute)); err != nil {
		panic(err)
	}
	fmt.Println("pending:", connection.Len())
	fmt.Println("canceled:", connection.Close())
	_, err = connection.AfterFunc(time.Second, func() {})
	fmt.Println(err)
	// Output:
	// pending: 2
	// canceled: 2
	// hashedwheel: group is closed
}

// A timeout can end a context, for calls that take a context. Such a context differs from one of
// context.WithTimeout in three ways. Err returns context.Canceled, and only context.Cause says that the
// deadline was exceeded. Deadline does not report this deadline. And if the timer is stopped, the context
// does not end.
func ExampleTimer_AfterFunc_context() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	withTimeout := func(parent context.Context, delay time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(parent)
		timeout, err := timer.AfterFunc(delay, func() { cancel(context.DeadlineExceeded) })
		if err != nil {
			cancel(err)
			return ctx, func() {}
		}
		return ctx, func() {
			timeout.Cancel()
			cancel(nil)
		}
	}

	ctx, cancel := withTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	query, cancelQuery := context.WithCancel(ctx)
	defer cancelQuery()
	<-query.Done()
	fmt.Println(query.Err())
	fmt.Println(context.Cause(query))

	// Output:
	// context canceled
	// context deadline exceeded
}

func ExampleTimer_Sleep() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	ctx, cancel := context.WithCancel(context.Background())
	fmt.Println(timer.Sleep(ctx, 5*time.Millisecond))
	cancel()
	fmt.Println(timer.Sleep(ctx, time.Hour))
	// Output:
	// <nil>
	// context canceled
}

// A request holds its timeout, and is the task of that timeout.
type request struct {
	timeout hashedwheel.Timeout
	lost    chan string
}

func (r *request) Run(*hashedwheel.Timeout) { r.lost <- "timed out" }

// The timeout is a field of a struct that comes from a pool. So arming it needs no new Timeout.
func ExampleTimer_Bind() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	lost := make(chan string)
	requests := sync.Pool{New: func() any {
		r := &request{lost: lost}
		timer.Bind(&r.timeout, r)
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
		timer.Bind(&r.timeout, r)
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

// The retry of ExampleTimer_Schedule_retry ends after five tries, also if each of them panics.
func TestRetryThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, pause = time.Millisecond, 5 * time.Millisecond
		timer, err := hashedwheel.New(hashedwheel.WithTick(tick),
			hashedwheel.WithPanicHandler(func(*hashedwheel.Timeout, any, []byte) {}))
		require.NoError(t, err)
		defer timer.Stop()

		start := time.Now()
		var tries []time.Duration
		d := &delivery{pause: pause, send: func() error {
			tries = append(tries, time.Since(start))
			panic("send")
		}}
		to, err := timer.Schedule(d, d)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []time.Duration{tick, tick + pause, tick + 3*pause, tick + 7*pause, tick + 15*pause}, tries)
		require.True(t, to.IsExpired())
		require.Equal(t, errPanicked, d.err)
	})
}

// A connection is closed when it has been idle for an hour.
type connection struct {
	idle   hashedwheel.Timeout
	closed time.Time
}

func (c *connection) Run(*hashedwheel.Timeout) { c.closed = time.Now() }

// Code that uses a timer is tested in a bubble of testing/synctest. There an hour takes no time, and times
// are exact. When synctest.Wait returns, the task has run.
func TestWithSynctest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, limit = 100 * time.Millisecond, time.Hour + time.Millisecond
		timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
		require.NoError(t, err)
		defer timer.Stop() // before the bubble ends

		var c connection
		timer.Bind(&c.idle, &c)
		_, err = c.idle.Reset(limit)
		require.NoError(t, err)
		time.Sleep(30 * time.Minute)
		last := time.Now() // a packet comes
		require.True(t, c.idle.Move(limit))

		time.Sleep(limit)
		synctest.Wait()
		require.False(t, c.idle.IsExpired(), "never early")
		time.Sleep(tick)
		synctest.Wait()
		require.Equal(t, last.Add(time.Hour+tick), c.closed, "the first boundary after the deadline")
	})
}
