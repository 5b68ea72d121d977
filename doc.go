// Package hashedwheel is a timer for programs that hold very many timeouts at once and cancel
// most of them: a timeout for each request in flight, an idle limit for each connection,
// retries, delayed jobs.
//
//	timer, err := hashedwheel.New()
//	...
//	timeout, err := timer.AfterFunc(3*time.Second, func() { call.fail(errTimeout) })
//	...
//	timeout.Cancel() // the answer has come
//
// # Guarantees
//
// One tick boundary lies at each whole multiple of the tick (100 ms by default) after New. A
// task starts at the first boundary at or after its deadline: never early, and late by less
// than one tick plus what the machine adds. Only monotonic time counts.
//
// Each timeout that was accepted ends exactly once: its task is started, or it is canceled, or
// it is handed back by [Timer.Stop]. When [Timeout.Cancel] returns true the task never starts.
// There is no order among timeouts that fall on the same tick.
//
// Tasks never run on the goroutine that turns the wheel, nor under a lock of the library:
// every method may be called from inside a task. A task that blocks delays no other one by more
// than two ticks, and tasks that do not block cost no goroutine. A panic in a task is recovered
// and reported.
//
// A timer with nothing pending has no goroutine, half a second later. While nothing is due it
// sleeps.
//
// # Without an allocation
//
// A [Timeout] may be a field of the caller's own struct: [Timer.Init] binds it once, and
// [Timeout.Reset] arms it again and again without an allocation. [Timeout.ResetAt] and
// [Timer.NewTimeoutAt] take a deadline instead of a delay, and need no reading of the clock.
//
// # Beyond one shot
//
// [Timer.ScheduleAtFixedRate], [Timer.ScheduleWithFixedDelay] and [Timer.Schedule] run a task
// again and again, with one handle for all runs. A [Keyed] is a map whose entries expire, a
// [Group] holds the timeouts that end with a connection. [Timer.Sleep] waits
// with a context. After [Timeout.Cancel], [Timeout.Wait] tells when a task that had been started is over.
//
// Package clock has timers and tickers with the signatures of package time, with channels, which never fail.
//
// # Costs
//
// To arm a timeout is a reading of the clock, one allocation of 48 bytes and a push on a
// lock-free queue; to cancel it, one compare-and-swap, and a push if it has been pending
// across a tick boundary. Timeouts that are canceled before the next boundary are cleared away by the
// goroutines that arm others, after every 256 of them, which takes some microseconds. So what a timer
// holds is at most a small multiple of what has been pending at once, and some 400 KB for each
// processor, however fast they come.
//
// # Monitoring
//
// [Timer.Stats] has the counts of what became of the timeouts, which agree at rest; how late tasks were
// started; and how the wheel, its queue and its goroutines are doing. It waits for nothing. The modules
// metrics/prometheus and metrics/otel export it. In profiles the goroutines of a timer carry its name: see
// [WithName].
//
// # When to use package time instead
//
// Package time is precise to the machine's limit, and as good a choice for timers that are
// few or that mostly fire. Use it where a tick of lateness matters.
//
// # Tests
//
// Inside a bubble of testing/synctest, a timer made there runs on the bubble's time, exactly.
// Stop it before the bubble ends, which otherwise finds its goroutine. To arm a timeout in a bubble on
// a timer made outside panics, and so does the other way round.
//
//	func TestIdleLimit(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			timer, err := hashedwheel.New()
//			...
//			defer timer.Stop()
//			c := serve(timer) // closes connections that are idle for an hour
//			time.Sleep(time.Hour + 100*time.Millisecond) // the limit and a tick: takes no time
//			synctest.Wait()                              // the task has run
//			if !c.closed {
//				t.Error("still open")
//			}
//		})
//	}
//
// While anything is pending a timer has one goroutine of its own, which goleak finds. This name stays the same, to
// ignore it by:
//
//	goleak.IgnoreAnyFunction("github.com/hashedwheel/hashedwheel.(*worker).run")
//
// Goroutines that run tasks have other names, and end when no task is left. So goleak still finds a task that
// hangs.
package hashedwheel
