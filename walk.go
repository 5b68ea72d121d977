package hashedwheel

import (
	"iter"
	"time"
	"unsafe"

	"github.com/hashedwheel/hashedwheel/internal/pool"
)

// Walks
//
// A walk goes once through all places where pending timeouts are, in the order in which timeouts move. So it misses none that
// moves forward meanwhile, but it may meet one twice. It remembers the addresses that it has yielded, and yields none twice. A
// Timeout has at least the size of a block of 32 bytes, so no two of them begin in the same block, and one bit for each block is enough.
//
//	         nurseries     inboxes     the wheel, from the top level down     the list of a pool     runners
//	---------> 1 --------> 2 ----------> 3 --------------------------------> 4 -------------------> 5
//
//   - It takes about walkStep timeouts at a time, and yields them without a lock. Nurseries have no lock: what the worker has
//     taken from there, it has placed when the walk gets the lock of the worker. If a round comes while the walk goes through an
//     inbox, the round takes all of it, so the walk finds the rest in the wheel.
//   - It may miss a timeout that moves back to an earlier place during the loop. A timeout moves back when it is reset or put
//     off, when its run ends, and when the worker places it again for a later tick.
//   - The address of a timeout that was yielded may become that of a new one. The walk need not yield that, because it was
//     not pending all the time.

const walkStep = 1 << 10

// Tasks returns an iterator over the tasks of pending timeouts, as Timeout.Task returns them, in no order. With each
// task comes the tick boundary at which it is due. No timeout comes twice. A timeout that is pending during the whole
// loop comes once, even if it is due and waits, with one exception: a timeout that is reset, or whose run ends, during
// the loop may be missed.
//
// The loop may call every method, and makes the timer wait for microseconds at a time. During the loop, some 1,000
// timeouts that have ended may stay in memory.
//
// The tasks of Sleep and of the packages of this module have a method String, which says what they are.
func (t *Timer) Tasks() iter.Seq2[Task, time.Time] {
	t.checkMade()
	return func(yield func(task Task, due time.Time) bool) {
		t.walk(func(to *Timeout) bool { return yield(to.Task(), to.Deadline()) })
	}
}

// walk calls yield with each timeout that Tasks yields.
func (t *Timer) walk(yield func(to *Timeout) bool) {
	k := &walk{timer: t, yield: yield, yielded: make(map[uintptr]uint64)}
	_ = k.rings() && k.wheel() && k.pool(&t.tasks) && k.pool(&t.light)
}

// eachRun calls f once for each run that is in progress, except runs of light tasks, which are short. The channel over is
// closed when the run is over. On the other side of a synctest bubble eachRun finds no run, because the channel would belong
// to the wrong side.
func (t *Timer) eachRun(match func(task Task) bool, f func(to *Timeout, over <-chan struct{})) {
	t.checkMade()
	if t.clock.Foreign() {
		return
	}
	seen := make(map[<-chan struct{}]bool)
	runs := t.tasks.Runs(func(to *Timeout) bool { return to.timer == t && match(to.Task()) }) // not if the user has overwritten the struct
	for _, run := range runs {
		if !seen[run.Over] {
			seen[run.Over] = true
			f(run.Item, run.Over)
		}
	}
}

// An activity is a call of user code that is in progress on a goroutine of the timer or of its executor.
type activity struct {
	what  string        // "" for a task; "Next", "Canceled", "panic handler" or "submit"
	of    any           // the task, the Schedule, or the function
	to    *Timeout      // nil for submit
	since time.Duration // when it began, or a look first found it
	brief time.Duration // since when it should return soon, in each program; 0 if it need not
}

// eachActivity calls f for each activity, except light tasks, which are short. Elapsed is the present time: see pool.Pool.Look.
func (t *Timer) eachActivity(elapsed time.Duration, f func(activity)) {
	elapsed = max(elapsed, 1)
	add := func(a activity) {
		if since, handled := t.handling.since(a.to); handled {
			a.what, a.of, a.since, a.brief = "panic handler", t.panicHandler, since, max(since, 1)
		}
		f(a)
	}
	t.tasks.Look(elapsed, func(s pool.Sight[*Timeout]) {
		if s.Item.timer != t { // the user has overwritten the struct
			return
		}
		a := activity{of: s.Item.Task(), to: s.Item, since: s.Since, brief: s.Awaited}
		if schedule, since := s.Item.asks(); schedule != nil {
			a.what, a.of, a.since, a.brief = "Next", schedule, since, since
		}
		add(a)
	})
	t.calls.Look(elapsed, func(of any, since time.Duration) {
		to := of.(*Timeout)
		add(activity{what: "Canceled", of: to.Task(), to: to, since: since, brief: since})
	})
	if t.executor != nil && !t.queue.shut.Load() { // Shutdown does not wait for submit, and nothing runs after it
		t.executor.Look(elapsed, func(submit any, since time.Duration) { f(activity{what: "submit", of: submit, since: since}) })
	}
}

// asks returns the Schedule of a timeout, and when the call of its Next began that is in progress on a runner. It returns nil if none
// is, and for a Schedule that is an interval.
func (to *Timeout) asks() (schedule any, since time.Duration) {
	task := to.task
	for w, ok := task.(wrapper); ok; w, ok = task.(wrapper) {
		if r, ok := w.(interface{ asks() (any, time.Duration) }); ok {
			return r.asks()
		}
		task = w.wrapped()
	}
	return nil, 0
}

// A walk is one loop over the timeouts of a timer.
type walk struct {
	timer   *Timer
	yield   func(to *Timeout) bool
	popped  uint64             // the value of worker.popped when the walk came to the inbox
	found   []*Timeout         // in places, and not yielded yet
	yielded map[uintptr]uint64 // by address / 2048: a bit for each block of 32 bytes in which one that was yielded begins
}

const _ = uint(unsafe.Sizeof(Timeout{}) - 32) // compiles if a Timeout is not smaller than a block

// flush yields the timeouts that were found, and reports whether the loop goes on.
func (k *walk) flush() (more bool) {
	for i, to := range k.found {
		k.found[i] = nil
		if to == nil || status(to.word.Load()) != pending { // nil in place of one that was taken off the list of a pool
			continue
		}
		at := uintptr(unsafe.Pointer(to))
		blocks, bit := k.yielded[at>>11], uint64(1)<<(at>>5&63)
		if blocks&bit == 0 {
			k.yielded[at>>11] = blocks | bit
			if !k.yield(to) {
				return false
			}
		}
	}
	k.found = k.found[:0]
	return true
}

// add is flush for timeouts that were found elsewhere.
func (k *walk) add(all []*Timeout) (more bool) {
	k.found = append(k.found, all...)
	return k.flush()
}

func (k *walk) pool(p *pool.Pool[*Timeout]) (more bool) {
	return p.EachListed(k.add) && p.EachTaken(k.add)
}

// rings goes through the nurseries, and then through the inboxes.
func (k *walk) rings() (more bool) {
	stripes := k.timer.queue.stripes
	more = true
	for i := range stripes {
		stripes[i].nursery.each(func(to *Timeout) bool {
			k.found = append(k.found, to)
			more = len(k.found) < walkStep || k.flush()
			return more
		})
		if !more {
			return false
		}
	}
	for i := range stripes {
		for to := k.inbox(&stripes[i], nil); to != nil; to = k.inbox(&stripes[i], to) {
			if !k.flush() {
				return false
			}
		}
	}
	return k.flush()
}

// inbox collects some timeouts on the inbox of a stripe, beginning with from, or with the top if from is nil. It returns where to go
// on, or nil at the end.
func (k *walk) inbox(s *stripe, from *Timeout) (next *Timeout) {
	w := &k.timer.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	switch popped := w.popped.Load(); {
	case w.state.Load() == halted:
		return nil // Stop takes what is there, without the lock
	case from == nil:
		from, k.popped = s.inbox.Load(), popped
	case k.popped != popped:
		return nil // a round has taken the inboxes, so walk.wheel comes to what was there
	}
	for ; from != nil && len(k.found) < walkStep; from = from.next {
		k.found = append(k.found, from)
	}
	return from
}

// wheel goes through the buckets, and through each from its end, because the last entry fills the gap of one that is
// removed.
func (k *walk) wheel() (more bool) {
	w := &k.timer.worker
	for level := w.levels - 1; level >= 0; level-- {
		index, pos := uint64(0), -1
		for index < uint64(w.wheelSize) {
			index, pos = k.buckets(level, index, pos)
			if !k.flush() {
				return false
			}
		}
	}
	return true
}

// buckets finds some timeouts in buckets of a level, from an index on. In the first bucket, pos entries are left to
// visit, or all if pos is negative. The results say where to go on.
func (k *walk) buckets(level int, index uint64, pos int) (nextIndex uint64, nextPos int) {
	w := &k.timer.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	end := uint64(w.wheelSize)
	if w.wheel == nil || w.wheel.levels[level].buckets == nil {
		return end, 0
	}
	l := &w.wheel.levels[level]
	for ; index < end; index, pos = l.occupied.Next(index+1, end), -1 {
		b := &l.buckets[index]
		if pos < 0 || pos > b.n {
			pos = b.n
		}
		for ; pos > 0; pos-- {
			if len(k.found) >= walkStep {
				return index, pos
			}
			_, to := b.at(pos - 1)
			k.found = append(k.found, to)
		}
	}
	return end, 0
}
