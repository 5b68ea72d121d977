// To read the code, begin with "Reading the code" in CONTRIBUTING.md: it has the order of the files, and a glossary.

// Package hashedwheel is a timer for programs that hold very many timeouts and cancel most of them: a timeout for each
// request in flight, an idle limit for each connection, retries, delayed jobs.
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
// A tick boundary lies at each whole multiple of the tick (100 ms by default) after New. A task starts at the first
// boundary at or after its deadline: never early, and late by less than one tick, plus what the machine adds. Only a
// [Schedule] follows the wall clock.
//
// Each accepted timeout ends exactly once: its task is started, or it is canceled, or [Timer.Stop] returns it. After
// Stop nothing is sent to the channel of the example above: end the calls first, and then stop the timer.
//
// A task may call every method. Without [WithMaxConcurrency] and [WithExecutor], a task that blocks delays others by
// at most two ticks. Panics of tasks are recovered and reported. A timer that only waits has no goroutine, only a timer
// of the runtime. Within a second after the last timeout has ended, it has neither.
//
// # More
//
//   - [Timer.Bind] binds a Timeout in your own struct: arming it seldom allocates.
//   - [Timer.ScheduleAtFixedRate], [Timer.ScheduleWithFixedDelay] and [Timer.Schedule] repeat a task.
//   - A [Group] holds timeouts that end together.
//   - [Timer.Sleep] waits for a delay or a context.
//   - Package keyed has a map whose entries expire, and package clock the timers of package time.
//
// docs/guide.md has options, costs, monitoring and tests.
//
// # Wrong arguments
//
// A wrong value that may come from a configuration is an error where the function returns one, such as an option of [New], a
// period, or a nil task. These panic, and the message says which: a nil or zero Timer, Group, Map or Timeout, and a wrong option of
// a function without an error. This also holds for the other packages of the module.
//
// # When to use package time
//
// Use package time where a tick of lateness matters, and for timers that are few or mostly fire. For a context whose
// Done is used, use [context.WithTimeout].
package hashedwheel
