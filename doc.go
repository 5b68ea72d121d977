// To read the code, begin with "Reading the code" in CONTRIBUTING.md: it has the order of the files, and a glossary.

// Package hashedwheel is a timer for programs that hold very many timeouts at once, and cancel or move most of them
// before they are due. Use it in place of a scan, a heap under a lock, or very many timers that a program resets.
// Examples are idle limits of connections, leases, a cache with a TTL, retries and delayed jobs.
//
//	timer, err := hashedwheel.New()
//	...
//	failed := make(chan error, 1)
//	timeout, err := timer.AfterFunc(3*time.Second, func() { failed <- errTimeout })
//	if err != nil {
//		return err // the timer is stopped, or full
//	}
//	select {
//	case reply := <-call.done:
//		if timeout.Cancel() { // the function never starts
//			return use(reply)
//		}
//		return errTimeout // both came together
//	case err := <-failed:
//		return err
//	}
//
// # Promises
//
// Tick boundaries lie at whole multiples of the tick (100 ms by default) after New. A task starts at the first boundary
// at or after its deadline: never early, and late by less than one tick, plus what the machine adds. Only a [Schedule]
// follows the wall clock.
//
// Each accepted timeout ends exactly once: its task is started, or it is canceled, or [Timer.Stop] returns it. After
// Stop, tasks no longer run, and the select above waits until the reply comes. Stop servers first, the timer last.
//
// A task may call every method. Without [WithMaxConcurrency] and [WithExecutor], a task that blocks delays others by at
// most two ticks. Panics of tasks are recovered and reported. A timer that only waits has no goroutine, only a runtime
// timer. Within a second after the last timeout has ended, the timer has neither.
//
// # More
//
//   - [Timer.Bind] binds a Timeout in your own struct. Moving its deadline to a later time allocates nothing.
//   - [Timer.ScheduleAtFixedRate], [Timer.ScheduleWithFixedDelay] and [Timer.Schedule] repeat a task.
//   - A [Group] holds timeouts that end together.
//   - [Timer.Sleep] waits for a delay or a context.
//   - Package keyed has a map whose entries expire, package idle has idle limits, and package clock has the timers of
//     package time.
//
// docs/guide.md has options, costs, monitoring and tests.
//
// # Wrong arguments
//
// A function that returns an error reports wrong values that may come from a configuration, such as an option of [New], a
// period, or a nil task. Other mistakes panic, with a message that names the mistake: a zero Timer, Group or Map, a nil
// one as an argument, and a nil Timeout. In a function without an error, a nil function or a wrong option panics too. The
// other packages of the module do the same.
//
// # When to use package time
//
// Use package time where a tick of lateness matters, and for timers that are few or mostly fire. For a context whose
// Done is used, use [context.WithTimeout].
package hashedwheel
