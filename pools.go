package hashedwheel

import (
	"cmp"
	"context"
	"runtime/pprof"
	"runtime/trace"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/pool"
)

// A timer has two pools, for the users' tasks and for light tasks: see hook.light. Timer.calls runs other code.

// host is the Timer as the host of its pools. The methods have a type of their own, so that users do not see them.
type host Timer

var _ pool.Host[*Timeout] = (*host)(nil)

var poolMemory pool.Memory[*Timeout] // of the pools of all timers

func (t *Timer) makePools(tick time.Duration, concurrency int, submit func(run func()) error) {
	labels := pool.CacheLabels(labelsFor(t.name, "runner"))
	t.region = "hashedwheel: " + labelOf(t.name)
	for _, p := range []*pool.Pool[*Timeout]{&t.tasks, &t.light} {
		p.Init((*host)(t), tick, &poolMemory)
		p.Labels = labels
	}
	t.calls.Init(tick)
	t.calls.SetLabels(labels)
	t.tasks.Limit = concurrency
	if submit != nil {
		t.executor = pool.NewExecutor(&t.tasks, &t.calls, tick, submit, t.clock.Check, func(value any, stack []byte) {
			t.reportPanic(nil, "executor", value, stack)
		})
	}
	t.worker.due, t.worker.lightDue = pool.NewFeeder(&t.tasks), pool.NewFeeder(&t.light)
}

// labelsFor returns the profiler labels of a role. Each goroutine sets them: otherwise it inherits its starter's.
func labelsFor(name, role string) context.Context {
	// Not "role", which a program may use for its own goroutines.
	return pprof.WithLabels(context.Background(), pprof.Labels("hashedwheel", labelOf(name), "hashedwheel.role", role))
}

// labelOf returns the name of a timer in profiles and traces.
func labelOf(name string) string { return cmp.Or(name, "timer") }

// Work claims timeouts and runs their tasks: see rule 4 of timeout.go. It also frees their slots of the limit.
func (h *host) Work(rn *pool.Runner[*Timeout]) {
	t := (*Timer)(h)
	s := t.queue.stripe()
	for to := rn.Next(); to != nil; to = rn.Next() {
		if to.timer != t { // the user has overwritten the struct
			continue
		}
		word := to.claim()
		if word == 0 {
			continue
		}
		if word&atWork == 0 { // a repeating timeout keeps its slot
			s.expired.Add(1)
			t.limit.release()
		}
		if rn.Start(word&hooked != 0) {
			rn.Measured(t.clock.Elapsed() - t.clock.Boundary(tickOf(word)))
		}
		if trace.IsEnabled() {
			h.runTraced(to)
		} else {
			to.task.Run(to)
		}
	}
}

// runTraced runs a task as a region of the execution trace, which has the name of the task.
func (h *host) runTraced(to *Timeout) {
	ctx := context.Background()
	defer trace.StartRegion(ctx, h.region).End()
	trace.Log(ctx, "task", taskName(to.Task()))
	to.task.Run(to)
}

// claim makes a timeout that is due expired, or puts it at work if it repeats. It returns the new word. It returns 0 if the
// task must not run: the timeout was canceled, it was reset or put off to a later tick (see rule 3 of timeout.go), or its
// hook has armed or ended it. Called by the runner that has the timeout.
func (to *Timeout) claim() (claimed uint64) {
	for ok := false; !ok; {
		word := to.word.Load()
		switch {
		case !waits(word):
			return 0
		case !to.timer.isPast(tickOf(word)): // the word was changed since the worker has listed it: by a Reset, or putOff
			if onQueue(word) { // the worker places it, and this entry no longer matters
				return 0
			}
			if to.sendBack(word) {
				return 0
			}
		case word&hooked != 0:
			claimed, ok = hookOf(to.task).claim(to, word)
		default:
			claimed, ok = noHook{}.claim(to, word)
		}
	}
	return claimed
}

// sendBack queues a timeout for the worker, or returns false if its word has changed. After Stop, it queues nothing: it waits
// until Stop has taken the timeout, and returns true. Called by the runner that has the timeout.
func (to *Timeout) sendBack(word uint64) (ok bool) {
	t := to.timer
	s := t.queue.stripe()
	if !t.enterOrWait(s) {
		return true
	}
	defer s.leave()
	if ok = to.word.CompareAndSwap(word, word|queued); ok {
		s.push(to)
		t.worker.wakeFor(soon)
	}
	return ok
}

func (h *host) Count(late time.Duration, n uint64) { h.lateness.Record(late, n) }

func (h *host) Ran(to *Timeout) bool { return hookOf(to.task).ran(to) }

// Requeue has the worker hand the timeout over again.
func (h *host) Requeue(to *Timeout) {
	for word := to.word.Load(); waits(word) && word&queued == 0; word = to.word.Load() {
		if to.sendBack(word) {
			h.worker.wakeNow()
			return
		}
	}
}

func (h *host) Panicked(to *Timeout, value any, stack []byte) {
	(*Timer)(h).reportPanic(to, "task", value, stack)
}
