package hashedwheel

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/logtext"
	"github.com/hashedwheel/hashedwheel/internal/pool"
	"github.com/hashedwheel/hashedwheel/internal/warn"
)

// If manyDue tasks wait, and neither a limit nor an executor holds them up, their runners are why the worker is late.
const manyDue = 1 << 16

// warn logs what is wrong at the end of a round, and waits neither for the logger nor for a look at all calls in progress. A round
// must come at the time until, to check again. If rounds come anyway, one should come at the time line, to log panics that are kept.
// Each time is math.MaxInt64 if there is no need. The worker calls it as worker.warn.
func (t *Timer) warn(r ending) (until, line time.Duration) {
	w := &t.worker
	if v, hadMore := w.late.Report(r.elapsed, r.behind); v.Warn {
		t.warnLate(v.For, hadMore || t.drains())
	} else if v.Over {
		t.logSoon(slog.LevelInfo, "hashedwheel: timeouts fire on time again", "lasted", logtext.Duration(v.For))
	}
	until = math.MaxInt64
	if w.waits.Due(r.elapsed, r.emitted) {
		until = t.checkWaits(r.elapsed)
	}
	if w.calls.Due(r.elapsed, r.busy) {
		t.lookSoon()
	}
	if line = t.flood.Next(); line <= r.elapsed {
		t.logKept(false)
		line = t.flood.Next() // of the other kinds
	}
	return until, line
}

// checkWaits logs whether tasks or keys wait. It returns the time at which a round must check again.
func (t *Timer) checkWaits(elapsed time.Duration) (until time.Duration) {
	r := t.tasks.Report(func(to *Timeout) bool { return !to.isListed() }) // see worker.reconcile
	tasks, keys := warn.Waiting{N: r.Waiting}, t.queues.waiting()
	if r.Waiting > 0 {
		tasks.Longest = sinceListed(r.First, elapsed)
	}
	ofTasks, ofKeys, until := t.worker.waits.Check(elapsed, tasks, warn.Waiting{N: keys.keys, Longest: keys.longest})
	if ofTasks.Warn {
		t.logSoon(slog.LevelWarn, "hashedwheel: tasks are due and wait for "+t.waitFor(r),
			"waiting", r.Waiting, "late", logtext.Duration(ofTasks.For), "running", r.Running)
	} else if ofTasks.Over {
		t.logSoon(slog.LevelInfo, "hashedwheel: tasks no longer wait", "lasted", logtext.Duration(ofTasks.For))
	}
	if ofKeys.Warn {
		t.logSoon(slog.LevelWarn, fmt.Sprintf("hashedwheel: keys wait for WithConcurrency(%d): as many calls of expired are in progress", keys.limit),
			"waiting", keys.keys, "late", logtext.Duration(ofKeys.For))
	} else if ofKeys.Over {
		t.logSoon(slog.LevelInfo, "hashedwheel: keys no longer wait", "lasted", logtext.Duration(ofKeys.For))
	}
	return until
}

// lookSoon has the timer look at the calls in progress, on another goroutine, because they may be very many. It is briefs.look.
func (t *Timer) lookSoon() {
	elapsed := t.clock.Elapsed()
	t.calls.Call(func() { t.look(elapsed) })
}

// look logs calls in progress that do not return.
func (t *Timer) look(elapsed time.Duration) {
	stuck, growing, again := t.census(elapsed)
	if again {
		t.briefs.arm(aMinute)
	}
	if stuck {
		t.logHang("calls that should return soon do not return", true)
	}
	if growing {
		t.logHang("more and more calls do not return", false)
	}
}

// census counts the calls in progress, and returns what warn.Calls says of them.
func (t *Timer) census(elapsed time.Duration) (stuck, growing, again bool) {
	t.looking.Lock()
	defer t.looking.Unlock()
	var found warn.Census
	calls := &t.worker.calls
	t.eachActivity(elapsed, func(a activity) { calls.Count(&found, elapsed, a.since, a.brief) })
	t.briefs.stuck.Store(int64(found.Stuck))
	return calls.Look(elapsed, found)
}

// drains reports whether very many tasks wait for a processor alone.
func (t *Timer) drains() bool {
	return t.executor == nil && t.tasks.Limit == 0 && t.tasks.Waiting() >= manyDue
}

// warnLate logs that the worker was late, and why: behind says that it, or the runners, had more to do than they could in a tick.
func (t *Timer) warnLate(late time.Duration, behind bool) {
	why := "machine overloaded or suspended"
	if behind {
		why = "very many were armed, canceled or due at once"
	}
	t.logSoon(slog.LevelWarn, "hashedwheel: timeouts fired late; "+why, "late", logtext.Duration(late))
}

// logHang logs what is wrong, with how many calls of user code have been in progress for long, and in which function most of them
// are. If brief is true, only calls count that should be brief.
func (t *Timer) logHang(what string, brief bool) {
	elapsed := t.clock.Elapsed()
	calls, most, longest := make(map[string]int), "", time.Duration(0)
	long := 0
	t.eachActivity(elapsed, func(a activity) {
		since := a.since
		if brief {
			since = a.brief
		}
		if age := elapsed - since; age >= warn.LongRun && since > 0 {
			name := a.name()
			calls[name]++
			long++
			longest = max(longest, age)
			if calls[name] > calls[most] {
				most = name
			}
		}
	})
	if long == 0 {
		return
	}
	running, _ := t.running()
	t.write(func() {
		t.log().Warn("hashedwheel: "+what+"; most are "+most, "calls", long, "most", calls[most], "longest", logtext.Duration(longest),
			"running", running)
	})
}

// name returns the name of the function that an activity is in.
func (a activity) name() string {
	switch a.what {
	case "":
		return taskName(a.of.(Task))
	case "Next", "Canceled":
		return fmt.Sprintf("%T.%s", a.of, a.what)
	default:
		return logtext.Func(a.of)
	}
}

// waitFor says what tasks that are due wait for.
func (t *Timer) waitFor(r pool.Report[*Timeout]) string {
	switch x := t.executor; {
	case r.AtLimit:
		return fmt.Sprintf("WithMaxConcurrency(%d): as many tasks run", r.Running)
	case x == nil:
		return "a goroutine: tasks compute, or meet at a lock, or the machine is overloaded"
	case x.Goroutines() < r.Starting:
		return fmt.Sprintf("the executor: it has not run %d functions that it has taken", r.Starting-x.Goroutines())
	default:
		return "the executor: its submit blocks"
	}
}
