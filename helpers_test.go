package hashedwheel

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/octave"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// The helpers that the packages share have short names here.
var (
	needsThreads   = testkit.NeedsThreads
	needsProcesses = testkit.NeedsProcesses
	spin           = testkit.Spin
	newRand        = testkit.Rand
	newShare       = testkit.NewShare
	full           = testkit.Full
	stressTime     = testkit.StressTime
	goesOn         = testkit.GoesOn
	pass           = testkit.Pass
	heapInUse      = testkit.HeapInUse
	raceDetector   = testkit.RaceDetector()
)

const (
	oneThread = testkit.OneThread
	patience  = testkit.Patience
)

type moments = testkit.Moments

func sized[T any](short, daily, full T) T { return testkit.Sized(short, daily, full) }

// onLevels are the options of newTimer that virtual sets.
var onLevels []Option

// virtual runs a test on virtual time, in a bubble of its own for each number of levels: 1 to 4, or 1
// and 3 with -short. With several levels the wheel is small, so that all levels get timeouts.
func virtual(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer func() { onLevels = nil }()
	testkit.Virtual(t, func(t *testing.T, levels int) {
		onLevels = nil
		if levels > 1 {
			onLevels = []Option{WithLevels(levels), WithWheelSize(4)}
		}
		f(t)
	})
}

// newTimer returns a timer that is stopped when the test ends. Then its invariants hold, before and after Stop, and its
// counts agree.
func newTimer(t testing.TB, opts ...Option) *Timer {
	t.Helper()
	timer := newFakedTimer(t, opts...)
	t.Cleanup(func() {
		verify(t, timer)
		timer.Stop()
		verify(t, timer)
		st := timer.Stats()
		for tries := 0; st.Pending > 0 && tries < 1000; tries++ {
			time.Sleep(time.Millisecond) // real time outside of a bubble: a runner has claimed a timeout, and is about to count it
			st = timer.Stats()
		}
		testkit.CheckCounts(t, st)
		require.Zero(t, st.Pending)
		if st.Running == 0 {
			require.Equal(t, st.Accepted, timer.queue.accepted())
		}
		require.Zero(t, st.Queued)
		require.Nil(t, st.Levels)
		if st.Running == 0 && st.Runners == 0 {
			require.LessOrEqual(t, st.Lateness.Count(), st.Expired)
			// Of eight tasks that start before canceled ones, perhaps only the first is measured.
			require.GreaterOrEqual(t, st.Lateness.Count()*8, st.Expired)
		}
	})
	return timer
}

// newFakedTimer is newTimer without the checks, for a test that changes internal state.
func newFakedTimer(t testing.TB, opts ...Option) *Timer {
	t.Helper()
	timer, err := New(append(slices.Clone(onLevels), opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	return timer
}

// verify checks all invariants of a timer at rest. No goroutine may be in a call. A round may be about to come, because verify
// holds the lock of rounds. While a runner or an executor has tasks, which may call the timer, it checks only the wheel. Known
// are timeouts that may be on the queue.
func verify(t testing.TB, timer *Timer, known ...*Timeout) {
	t.Helper()
	w, q := &timer.worker, &timer.queue
	w.mu.Lock()
	defer w.mu.Unlock()
	tasks, goroutines := timer.running()
	waiting := timer.tasks.Waiting() + timer.light.Waiting()
	pend := make(map[*Timeout]bool) // the pending timeouts that were found
	if w.wheel != nil {
		w.wheel.check(t)
		known = append(known, verifyBuckets(t, w.wheel, pend)...)
	}
	if tasks+goroutines > 0 {
		return
	}
	onQueues := verifyQueue(t, timer, pend)
	for _, to := range known {
		if onQueue(to.word.Load()) && !onQueues[to] {
			t.Fatalf("its word says that it is on the queue, and it is not: %v", to)
		}
	}
	for i := range q.stripes {
		require.Zero(t, q.stripes[i].inside.Load(), "inside the gate of stripe %d", i)
	}
	if waiting == 0 {
		require.Len(t, pend, timer.Pending(), "pending timeouts on the queue and in buckets")
	}
	if timer.limit.max > 0 {
		require.EqualValues(t, timer.Pending(), timer.limit.inUse.Load(), "slots of the limit")
	}
	switch state := w.state.Load(); {
	case q.shut.Load():
		require.EqualValues(t, halted, state)
		require.Nil(t, w.wheel)
		require.Empty(t, pend)
		require.Empty(t, onQueues)
	case state > halted:
		for to := range onQueues {
			if word := to.word.Load(); status(word) == pending && w.comesTooLate(state, tickOf(word)) {
				t.Fatalf("the worker comes too late for %v", to)
			}
		}
		for i := range q.stripes {
			require.False(t, q.stripes[i].inbox.Load() != nil && w.comesTooLate(state, 0), "the worker comes too late for an inbox")
		}
		if state == resting {
			require.Equal(t, uint64(ticks.Never), q.needs(), "the worker rests although something is on the queue")
		}
		if state < resting || w.wheel != nil {
			require.NotNil(t, w.alarm, "the worker does not come again")
		}
	}
}

// verifyBuckets checks the timeouts in the buckets of a wheel. It adds the pending ones that need not leave their bucket, and
// returns the others, which are on the queue. Like verifyQueue, it does without require in its loops, because each call of it
// looks at the stack.
func verifyBuckets(t testing.TB, w *wheel, pend map[*Timeout]bool) (leave []*Timeout) {
	t.Helper()
	for i := range w.levels {
		for slot := range w.levels[i].buckets {
			for _, e := range w.levels[i].buckets[slot].all() {
				word := e.to.word.Load()
				if word&young != 0 {
					t.Fatalf("in a bucket: %v", e.to)
				}
				if word&queued != 0 {
					leave = append(leave, e.to)
					continue
				}
				if !waits(word) || e.tick > tickOf(word) {
					t.Fatalf("in a bucket of tick %d: %v", e.tick, e.to)
				}
				pend[e.to] = true
			}
		}
	}
	return leave
}

// verifyQueue checks the invariants of nurseries and inboxes. It adds the pending timeouts that it finds, and returns those whose
// word says that they are on the queue. A timeout on an inbox is there once. Each young one is in a slot at which the worker
// looks in time.
func verifyQueue(t testing.TB, timer *Timer, pend map[*Timeout]bool) (onQueues map[*Timeout]bool) {
	t.Helper()
	q, in := &timer.queue, &timer.worker.in
	onQueues = make(map[*Timeout]bool)
	require.Zero(t, len(in.stacks)+len(in.near)+len(in.tables)+len(in.sweeps), "left over by a round")
	add := func(to *Timeout, word uint64) {
		switch word & (young | hurried | queued | atWork) {
		case young, young | hurried, queued, queued | atWork:
		default:
			t.Fatalf("the table of timeout.go does not have the bits %#x of %v", word, to)
		}
		onQueues[to] = true
		if status(word) == pending {
			pend[to] = true
		}
	}
	looks := make(map[*Timeout]uint64) // by young timeout, when the worker looks at the first of its slots
	pushed := -in.popped.Load()
	for i := range q.stripes {
		s := &q.stripes[i]
		pushed += s.pushed.Load()
		for to := s.inbox.Load(); to != nil; to = to.next {
			word := to.word.Load()
			if word&queued == 0 || onQueues[to] {
				t.Fatalf("twice on an inbox, or without the bit: %v", to)
			}
			add(to, word)
		}
		verifyRing(t, &s.nursery, looks)
		if q.shut.Load() {
			require.Same(t, stoppedTable, s.nursery.table.Load())
		}
	}
	require.EqualValues(t, len(onQueues), pushed, "on inboxes, and pushed but not taken")
	for to, by := range looks {
		word := to.word.Load()
		add(to, word)
		needs := q.nearAt(tickOf(word))
		if word&hurried != 0 {
			needs = soon
		}
		if status(word) == pending && needs < by {
			t.Fatalf("the worker looks by %d instead of %d, too late for %v", by, needs, to)
		}
	}
	return onQueues
}

// verifyRing checks that the worker looks at a ring no later than at each block with a timeout. It notes when it looks at young
// timeouts.
func verifyRing(t testing.TB, r *ring, looks map[*Timeout]uint64) {
	t.Helper()
	for table := r.table.Load(); table != nil; table = table.older.Load() {
		for i := range table.slots {
			by, to := table.blocks[i/blockSize].by.Load(), table.slots[i].Load()
			switch {
			case r.by.Load() > by:
				t.Fatalf("the worker looks at the ring by %d, later than at a block of it, by %d", r.by.Load(), by)
			case to == closedSlot:
				t.Fatal("a slot of a ring is closed")
			case to == nil:
			case by >= ticks.Never:
				t.Fatal("the worker does not look at a block with a timeout")
			case to.word.Load()&young != 0:
				if before, ok := looks[to]; !ok || by < before {
					looks[to] = by
				}
			}
		}
	}
}

// hold makes the test the worker of a timer that is idle, so that no round comes. It returns a function that gives the
// worker back, which starts a round. The end of the test does so at the latest.
func hold(t testing.TB, timer *Timer) (giveBack func()) {
	t.Helper()
	require.True(t, timer.worker.claimRound(), "a round is in progress")
	giveBack = sync.OnceFunc(func() { go timer.worker.run() })
	t.Cleanup(giveBack)
	return giveBack
}

// stopHeld stops a timer whose worker the test holds. No round comes in between.
func stopHeld(timer *Timer, giveBack func()) []*Timeout {
	go func() {
		for timer.worker.state.Load() != halted {
			runtime.Gosched()
		}
		giveBack()
	}()
	return timer.Stop()
}

// whenItLooksUp calls f whenever the worker of a timer looks up from its work.
func whenItLooksUp(timer *Timer, f func()) {
	timer.worker.in.worker = slowly{&timer.worker, f}
}

// A slowly is a reconciler that calls each whenever the worker looks up.
type slowly struct {
	reconciler
	each func()
}

func (s slowly) expireDue() (uint64, bool) {
	s.each()
	return s.reconciler.expireDue()
}

// takeInboxes takes what is on the inboxes of a timer. The test is the worker.
func takeInboxes(timer *Timer) {
	in := &timer.worker.in
	for i := range timer.queue.stripes {
		for stack := timer.queue.stripes[i].inbox.Swap(nil); stack != nil; in.popped.Add(1) {
			in.take(pop(&stack), queued)
		}
	}
}

// outcomes returns Stats with only the counts of timeouts and of their tasks.
func outcomes(timer *Timer) Stats {
	st := timer.Stats()
	return Stats{
		Pending: st.Pending, Running: st.Running,
		Accepted: st.Accepted, Expired: st.Expired, Canceled: st.Canceled, Returned: st.Returned,
		RejectedFull: st.RejectedFull, RejectedStopped: st.RejectedStopped, Panics: st.Panics, Unsubmitted: st.Unsubmitted,
	}
}

// checkReturned checks that Stop has returned a timeout that nobody has canceled yet, and cancels it.
func checkReturned(t testing.TB, to *Timeout) {
	t.Helper()
	require.False(t, to.IsExpired())
	require.False(t, to.IsCanceled())
	require.Contains(t, to.String(), "returned by Stop")
	require.False(t, to.Deadline().IsZero())
	require.True(t, to.Cancel())
	require.False(t, to.Cancel())
	require.True(t, to.IsCanceled())
}

// checkStats checks that the counts of a timer at rest agree.
func checkStats(t testing.TB, timer *Timer) {
	t.Helper()
	st := timer.Stats()
	testkit.CheckCounts(t, st)
	require.Zero(t, st.Running)
}

func nop() {}

// released reports whether the worker rests and keeps no memory and no alarm.
func (w *worker) released() bool {
	if w.state.Load() != resting {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wheel == nil && w.alarm == nil
}

// runnersOf returns how many goroutines run users' tasks, or are on their way to their first one.
func runnersOf(timer *Timer) int {
	_, goroutines := timer.tasks.Running()
	return goroutines
}

// Constants of internal/pool.
const (
	chunkLen   = 256 // the most timeouts that a runner takes at a time
	maxInRow   = 4   // how often a task that is due again runs before others that wait
	maxSubmits = 64  // calls of submit in progress
)

// setStripes gives the queue of a timer n stripes.
func setStripes(timer *Timer, n int) {
	timer.queue = queue{}
	timer.queue.init(timer.clock.Tick, n)
	timer.worker.in.popped.Store(0)
}

// oneStripe gives the queue of a timer one stripe, which all goroutines use.
func oneStripe(timer *Timer) *stripe {
	setStripes(timer, 1)
	timer.queue.seats = nil
	return &timer.queue.stripes[0]
}

// slots returns how many slots the nurseries have, also those of tables that the worker has yet to take.
func (q *queue) slots() (n int) {
	for i := range q.stripes {
		for t := q.stripes[i].nursery.table.Load(); t != nil; t = t.older.Load() {
			n += len(t.slots)
		}
	}
	return n
}

// inUse returns how many slots and inboxes lead to a timeout, also to one that was canceled.
func (q *queue) inUse() (n int) {
	for i := range q.stripes {
		s := &q.stripes[i]
		s.nursery.each(func(*Timeout) bool { n++; return true })
		for to := s.inbox.Load(); to != nil; to = to.next {
			n++
		}
	}
	return n
}

// puts returns how often a timeout was put onto the queue. It counts the slots that hands have skipped too.
func (q *queue) puts() (n uint64) {
	for i := range q.stripes {
		n += q.stripes[i].nursery.hand() + q.stripes[i].pushed.Load()
	}
	return n
}

// hand returns how many slots the hand has gone in all.
func (r *ring) hand() uint64 { return r.filled.Load() + r.skipped.Load() }

// accepted returns how many timeouts were armed, as the stripes count them. It is exact when no call is in progress.
func (q *queue) accepted() (n uint64) {
	for i := range q.stripes {
		n += q.stripes[i].accepted() + q.stripes[i].runs.Load()
	}
	return n
}

// A CancelCounter counts how often it has run and how often it was notified.
type CancelCounter struct {
	Ran, Told atomic.Int64
	Block     func() // Canceled calls it
}

func (c *CancelCounter) Run(*Timeout) { c.Ran.Add(1) }

func (c *CancelCounter) Canceled(to *Timeout) {
	if to.Task() != Task(c) {
		panic("Canceled got the timeout of another task")
	}
	c.Told.Add(1)
	if c.Block != nil {
		c.Block()
	}
}

// checkGroup checks that the list of a group has that many pending members, and that its links agree.
func checkGroup(t *testing.T, g *Group, want int) {
	t.Helper()
	require.Equal(t, want, g.Len())
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	var prev *member
	for m := g.first; m != nil; prev, m = m, m.next {
		require.Same(t, g, m.group)
		require.Equal(t, 1, m.armed)
		require.Equal(t, prev, m.prev)
		require.Equal(t, uint64(pending), status(m.timeout.word.Load()))
		n++
	}
	require.Equal(t, want, n)
}

// HistogramOf returns the histogram of the durations.
func HistogramOf(all ...time.Duration) (h Histogram) {
	for _, d := range all {
		h.counts[octave.Class(d)]++
		h.sum += d
	}
	return h
}

// These are for the tests of package hashedwheel_test.
var (
	NewTestTimer = newTimer
	Virtual      = virtual
	Executors    = executors
	Outcomes     = outcomes
	CheckStats   = checkStats
	CheckGroup   = checkGroup
	Logged       = logged
)

// ScheduleFunc is for the tests of package hashedwheel_test.
type ScheduleFunc = scheduleFunc
