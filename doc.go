// Package hashedwheel is a timer for programs that hold very many timeouts at once and cancel
// most of them: a timeout for each request in flight, an idle limit for each connection,
// retries, delayed jobs.
//
//	timer, err := hashedwheel.New()
//	...
//	timeout, err := timer.AfterFunc(3*time.Second, func() { call.fail(errTimeout) })
//	...
//	timeout.Cancel() // the answer has arrived
//
// # Guarantees
//
// A tick boundary lies at each whole multiple of the tick (100 ms by default) after New. A task starts at
// the first boundary at or after its deadline. It is never early, and it is late by less than one tick,
// plus what the machine adds. Only monotonic time counts.
//
// Each accepted timeout ends exactly once: its task is started, or it is canceled, or [Timer.Stop] returns
// it. When [Timeout.Cancel] returns true, the task never starts. Tasks that are due at the same tick start
// in no particular order.
//
// Tasks never run on the goroutine that turns the wheel, nor under a lock of the library, so a task may
// call every method. Without [WithMaxConcurrency] and [WithExecutor], a task that blocks delays others by at
// most two ticks, and tasks that do not block cost no goroutine each. A panic in a task is recovered and
// reported.
//
// While nothing is armed, canceled or due, a timer sleeps, apart from rare wake-ups, which the documentation
// of [Stats] lists. When nothing is pending and no task is running, a timer has no goroutine: with the
// default tick, its last goroutine ends within half a second.
//
// # Without an allocation
//
// A [Timeout] may be a field of your own struct. [Timer.Init] binds it to a timer and a task once. Then
// [Timeout.Reset] arms it any number of times, without an allocation. [Timeout.ResetAt] and
// [Timer.NewTimeoutAt] take a deadline instead of a delay, and seldom need to read the clock.
//
// # Beyond one shot
//
// [Timer.ScheduleAtFixedRate], [Timer.ScheduleWithFixedDelay] and [Timer.Schedule] run a task repeatedly,
// with one handle for all runs. A [Group] holds timeouts that end
// together, such as those of a connection. [Timer.Sleep] waits until a delay has passed or a context is
// done. After a [Timeout.Cancel], [Timeout.Wait] waits until a task that was already running has returned.
//
// Package keyed has a map whose entries expire. Package clock has timers and tickers with the signatures of
// package time, with channels and without errors.
//
// # Costs
//
// Arming a timeout costs a reading of the clock, one allocation of 48 bytes, and a push on a lock-free
// queue. Canceling it costs one compare-and-swap, and a push if it has been pending across a tick boundary.
//
// Timeouts that are canceled before the next boundary are dropped at that boundary, or earlier by the
// goroutines that arm others. One call in 256 does this, and takes some microseconds longer. So the memory of
// a timer does not depend on how fast timeouts are armed and canceled. It is at most a small multiple of what
// was pending at once, plus some 400 KB for each processor.
//
// # Monitoring
//
// [Timer.Stats] returns how many timeouts were armed, and how many of them expired or were canceled. It
// also returns how late tasks were started, and the state of the wheel, its queue and its goroutines. It
// never waits for the wheel. The modules metrics/prometheus and metrics/otel export these figures. In
// profiles, the goroutines of a timer carry its name: see [WithName].
//
// # When to use package time instead
//
// Package time is as precise as the machine allows: use it where a tick of lateness matters. It is also a
// good choice for timers that are few or that mostly fire.
//
// For a context whose Done is used, such as that of a request in a server, use [context.WithTimeout]. It
// takes less time and fewer allocations than a context that a timeout of this package cancels.
//
// # Tests
//
// A timer made inside a testing/synctest bubble runs on the bubble's time, exactly. Stop it before the
// bubble ends, because synctest waits for all goroutines of the bubble. Arming a timeout with a delay panics
// if only one of the timer and the caller belongs to the bubble.
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
// While a timeout waits for its deadline, a timer has one goroutine of its own, which goleak finds. The name
// of its function does not change, so a test can ignore it:
//
//	goleak.IgnoreAnyFunction("github.com/hashedwheel/hashedwheel.(*worker).run")
//
// Goroutines that run tasks have other names, and end when no task is left. So goleak still finds a task that
// hangs.
package hashedwheel
