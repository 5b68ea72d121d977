package hashedwheel

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/seat"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

func init() { verifyQueue = checkQueue }

// checkQueue checks all invariants of the queue of a timer at rest, and that the timeouts that were found are those that count as
// pending. Called by verify, which holds the lock of rounds.
func checkQueue(t testing.TB, timer *Timer, pend map[*Timeout]bool, leave, known []*Timeout) {
	t.Helper()
	w, q := &timer.worker, &timer.queue
	waiting := timer.tasks.Waiting() + timer.light.Waiting()
	onQueues := verifyPlaces(t, timer, pend)
	for _, to := range leave {
		if to.word.Load()&young != 0 {
			t.Fatalf("in a bucket: %v", to)
		}
	}
	for _, to := range slices.Concat(leave, known) {
		if onQueue(to.word.Load()) && !onQueues[to] {
			t.Fatalf("its word says that it is on the queue, and it is not: %v", to)
		}
	}
	for i := range q.stripes {
		require.Zero(t, q.stripes[i].inside.Load(), "inside the gate of stripe %d", i)
		require.Zero(t, q.stripes[i].notifying.Load(), "notifying on stripe %d", i)
	}
	if waiting == 0 {
		require.Len(t, pend, timer.Pending(), "pending timeouts on the queue and in buckets")
	}
	require.Equal(t, q.accepted(), timer.Stats().Accepted)
	switch state := w.state.Load(); {
	case q.shut.Load():
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
			require.False(t, w.wheel == nil && q.slots() > 0, "the worker has given back its memory, and not the nurseries")
		}
	}
}

// verifyPlaces checks the invariants of nurseries and inboxes. It adds the pending timeouts that it finds, and returns those whose
// word says that they are on the queue. A timeout on an inbox is there once. Each young one is in a slot at which the worker
// looks in time.
func verifyPlaces(t testing.TB, timer *Timer, pend map[*Timeout]bool) (onQueues map[*Timeout]bool) {
	t.Helper()
	q, w := &timer.queue, &timer.worker
	onQueues = make(map[*Timeout]bool)
	require.Empty(t, w.stacks, "left over by a round")
	if state := w.state.Load(); state != working && state != workingAgain { // otherwise another round follows at once
		require.Zero(t, len(w.near)+len(w.sweeps), "left over by a round")
	}
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
	pushed := -w.popped.Load()
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

// setStripes gives the queue of a timer n stripes.
func setStripes(timer *Timer, n int) {
	timer.queue = queue{}
	timer.queue.init(timer.clock.Tick, n)
	timer.worker.popped.Store(0)
}

// oneStripe gives the queue of a timer one stripe, which all goroutines use.
func oneStripe(timer *Timer) *stripe {
	setStripes(timer, 1)
	timer.queue.seats = nil
	return &timer.queue.stripes[0]
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

// accepted returns how many timeouts were armed, as the stripes count them. It is exact when no call is in progress.
func (q *queue) accepted() (n uint64) {
	for i := range q.stripes {
		n += q.stripes[i].accepted() + q.stripes[i].runs.Load()
	}
	return n
}

// There are twice as many stripes as processors, rounded up to a power of two, within bounds.
func TestStripes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for procs, want := range map[int]int{1: 8, 4: 8, 5: 16, 32: 64, 128: 256, 1000: 256} {
		if oneThread {
			procs, want = 1, 8 // the platform has only one processor
		}
		runtime.GOMAXPROCS(procs)
		require.Equal(t, want, defaultStripes(), "%d processors", procs)
	}
}

func TestStripeSize(t *testing.T) {
	require.EqualValues(t, 128, unsafe.Sizeof(stripe{}), "The padding of a stripe must shrink by what was added: 8 bytes for a counter.")
}

// Two goroutines that are busy on the same stripe at the same time separate.
func TestChangeStripe(t *testing.T) {
	needsThreads(t) // with one thread goroutines do not collide
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	timer := newTimer(t, WithTick(time.Hour))
	q := &timer.queue
	setStripes(timer, 2)
	q.seats = new(seat.Table)
	for i := range q.seats {
		q.seats[i].Store(uint32(i % 2)) // all on the first stripe
	}
	var quit atomic.Bool
	var users sync.WaitGroup
	for range 2 {
		users.Go(func() {
			for !quit.Load() {
				to, err := timer.AfterFunc(time.Hour, nop)
				if err != nil {
					panic(err)
				}
				to.Cancel()
			}
		})
	}
	apart := false
	for end := time.Now(); goesOn(end, apart); {
		time.Sleep(time.Millisecond) // real time, because the goroutines must run at the same time
		apart = q.stripes[1].accepted() > 0
	}
	quit.Store(true)
	users.Wait()
	require.True(t, apart)
	require.Zero(t, timer.Pending())
}

// Stop waits for the goroutines inside the gate, on each stripe. A Cancel that comes while Stop waits is counted.
func TestStopWaitsForTheGate(t *testing.T) {
	fresh := newTimer(t)
	for i := range fresh.queue.stripes {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxPending(9))
		to, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		s := &timer.queue.stripes[i]
		require.True(t, timer.queue.enter(s))
		stopped := make(chan []*Timeout)
		go func() { stopped <- timer.Stop() }()
		for !timer.IsStopped() {
			runtime.Gosched()
		}
		require.True(t, to.Cancel())
		require.Zero(t, timer.Pending())
		require.EqualValues(t, 1, timer.Stats().Canceled)
		select {
		case <-stopped:
			t.Fatalf("Stop did not wait for stripe %d", i)
		case <-time.After(time.Millisecond):
		}
		s.leave()
		require.Empty(t, <-stopped)
	}
}

// Shutdown waits for each Cancel that may be about to notify a Canceler, on each stripe. Stop does not. The test runs on real time,
// because Shutdown spins.
func TestShutdownWaitsForCanceledToBeCalled(t *testing.T) {
	timer := newTimer(t)
	for i := range timer.queue.stripes {
		timer.queue.stripes[i].notifying.Add(1)
	}
	timer.Stop()
	over := make(chan error)
	go func() {
		_, err := timer.Shutdown(t.Context())
		over <- err
	}()
	for i := range timer.queue.stripes {
		select {
		case <-over:
			t.Fatalf("Shutdown did not wait for stripe %d", i)
		case <-time.After(time.Millisecond):
		}
		timer.queue.stripes[i].notifying.Add(-1)
	}
	require.NoError(t, <-over)
}

// Producers that go on while Stop waits do not enter the gate again and again: once it is shut, they leave the count alone.
func TestShutGateIsNotEntered(t *testing.T) {
	timer := newTimer(t)
	s := &timer.queue.stripes[0]
	require.True(t, timer.queue.enter(s))
	s.leave()
	timer.Stop()
	require.False(t, timer.queue.enter(nil), "it would panic")
}

// A goroutine that arms ended timeouts again yields to the round that it has started, except in the backoff. Beside goroutines
// that compute, each yield costs their time slices.
func TestArmingAgainYields(t *testing.T) {
	if testkit.RaceDetector() {
		t.Skip("with the race detector, the resets take longer than a time slice")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const slice = 10 * time.Millisecond // after that the goroutine is preempted, and then the test tries again
	for _, backoff := range []time.Duration{0, maxBackoff} {
		for tries := 0; ; tries++ {
			require.Less(t, tries, 1000)
			timer, kept := heldWithEnded(t, 2*fullInbox)
			timer.yielding.from.Store(int64(timer.clock.Elapsed() - yieldFor))
			timer.yielding.backoff.Store(int64(backoff))
			var ran atomic.Bool
			runtime.Gosched() // a new time slice
			from := time.Now()
			go ran.Store(true)
			for i := range kept {
				kept[i].Reset(1000 * time.Hour)
			}
			yielded, took := ran.Load(), time.Since(from)
			require.GreaterOrEqual(t, timer.Stats().Queued, len(kept)/2)
			for i := range kept {
				kept[i].Cancel()
			}
			if took < slice/2 || runtime.GOOS == "js" { // there nothing preempts a goroutine
				require.Equal(t, backoff == 0, yielded, backoff)
				break
			}
		}
	}
}

// A goroutine that arms ended timeouts again, and cancels them, waits while too many are on the inboxes, unless as many are pending.
// The worker does not come, so it waits as long as it ever does. In a synctest bubble it does not wait.
func TestArmingAgainWaits(t *testing.T) {
	const calls = 3 // of relieveInbox; at the first one, what was armed is still pending
	for _, c := range []struct {
		pending  uint64 // how many seem to be
		inBubble bool   // the timer knows that it is in one
		took     time.Duration
	}{
		{0, true, 0},
		{0, false, (calls - 1) * maxWait},
		{calls * yieldEvery, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			timer, kept := heldWithEnded(t, calls*yieldEvery)
			s := &timer.queue.stripes[0]
			s.pushed.Add(2 * fullInbox) // so many seem to wait
			s.armed.Add(c.pending)
			timer.clock.Monotonic = !c.inBubble
			from := time.Now()
			for i := range kept {
				kept[i].Reset(1000 * time.Hour)
				kept[i].Cancel()
			}
			require.Equal(t, c.took, time.Since(from), "%+v", c)
			timer.clock.Monotonic = false
		})
	}
}

// While a goroutine waits for relief, it starts rounds, and each other that arms an ended timeout waits for it. Then all go on.
func TestAllWaitForRelief(t *testing.T) {
	for _, relieved := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			timer, kept := heldWithEnded(t, 2)
			timer.clock.Monotonic = true // as outside of bubbles
			s := &timer.queue.stripes[0]
			s.pushed.Add(2*fullInbox + 1) // so many seem to be about to be placed
			s.pushedAtTake.Store(s.pushed.Load())
			from := time.Now()
			var waiting sync.WaitGroup
			var ended atomic.Int64
			waiting.Go(timer.waitForRelief)
			pass(maxWait/4 - time.Millisecond/2)
			for i := range kept {
				waiting.Go(func() {
					kept[i].Reset(1000 * time.Hour)
					ended.Add(1)
				})
			}
			pass(maxWait / 4)
			require.Zero(t, ended.Load())
			took := maxWait
			require.EqualValues(t, workingAgain, timer.worker.state.Load())
			timer.worker.state.Store(working)
			if relieved {
				timer.worker.popped.Add(1)
				took = maxWait / 2
			}
			waiting.Wait()
			require.Equal(t, took, time.Since(from))
			require.Equal(t, relieved, timer.worker.state.Load() == working, "it did not start rounds, or it did when it was over")
			timer.clock.Monotonic = false
		})
	}
}

// On the other side of a synctest bubble a call panics. It does not wait, and nobody waits for it.
func TestForeignWaitsForNoRelief(t *testing.T) {
	timer := newTimer(t)
	over := make(chan struct{})
	close(over)
	timer.relief.Store(&over)
	synctest.Test(t, func(t *testing.T) { require.Panics(t, timer.waitForRelief) })
	timer.relief.Store(nil)
	synctest.Test(t, func(t *testing.T) { require.Panics(t, timer.waitForRelief) })
	require.Nil(t, timer.relief.Load())
}

// heldWithEnded returns a timer with one stripe, whose worker the test is, and n timeouts that are canceled. They are no
// longer on the queue, so arming one again pushes it onto the inbox.
func heldWithEnded(t *testing.T, n int) (timer *Timer, kept []Timeout) {
	timer = newFakedTimer(t, WithTick(time.Hour))
	w := &timer.worker
	oneStripe(timer)
	hold(t, timer)
	w.round() // makes the wheel
	kept = make([]Timeout, n)
	for i := range kept {
		timer.Bind(&kept[i], plainFunc(nop))
		_, err := kept[i].Reset(1000 * time.Hour)
		require.NoError(t, err)
	}
	w.giveBack()
	for i := range kept {
		require.True(t, kept[i].Cancel())
	}
	takeInboxes(timer)
	return timer, kept
}

// A reader may see the end of a timeout before the call that has armed it has counted it. Even then Accepted is not less than what
// has ended, and no count is below zero.
func TestCountsAreNotNegative(t *testing.T) {
	for _, c := range []struct {
		accepted, ended, want uint64
		pending               int
	}{
		{0, 1, 1, 0},
		{9, 10, 10, 0},
		{10, 10, 10, 0},
		{12, 10, 12, 2},
	} {
		timer := newFakedTimer(t)
		timer.queue.stripes[0].armed.Store(c.accepted)
		timer.queue.stripes[1].expired.Store(c.ended)
		require.Equal(t, Stats{Accepted: c.want, Pending: c.pending, Expired: c.ended}, timer.Stats())
		require.Equal(t, c.pending, timer.Pending())
	}
}

// When counters wrap around, the timer still works, because it uses only their differences.
func TestCountersWrap(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newFakedTimer(t, WithTick(time.Millisecond))
		const before = math.MaxUint64 - 5
		for i := range timer.queue.stripes {
			s := &timer.queue.stripes[i]
			for _, c := range []*atomic.Uint64{&s.armed, &s.canceled, &s.nursery.filled, &s.nursery.skipped, &s.pushed} {
				c.Store(before)
			}
			timer.returned.Add(before)
			timer.worker.popped.Add(before)
		}
		for range 3 {
			for range 20 {
				_, err := timer.AfterFunc(time.Millisecond, nop)
				require.NoError(t, err)
				to, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				require.True(t, to.Cancel())
				_, err = to.Reset(time.Hour)
				require.NoError(t, err)
			}
			require.Equal(t, 40, timer.Pending())
			pass(3 * sweepTime)
			require.Equal(t, 20, timer.Pending())
			require.Zero(t, timer.Stats().Queued)
			timer.cancelAll(t)
			pass(5 * time.Millisecond)
			require.Zero(t, timer.Pending())
		}
		// Tasks that block need runners. Their number is computed from the same counters.
		for range 50 {
			_, err := timer.AfterFunc(0, func() { time.Sleep(time.Hour) })
			require.NoError(t, err)
		}
		pass(10 * time.Millisecond)
		require.Equal(t, 50, timer.Stats().Running)
		pass(time.Hour)
	})
}

// cancelAll cancels the timeouts in the wheel.
func (t *Timer) cancelAll(tb testing.TB) {
	t.worker.mu.Lock()
	var all []*Timeout
	t.worker.wheel.each(func(to *Timeout) { all = append(all, to) })
	t.worker.mu.Unlock()
	for _, to := range all {
		require.True(tb, to.Cancel())
	}
}

// A worker that goes to rest checks every stripe of the queue once more. One that comes again at the next boundary does not.
func TestRestChecksTheQueue(t *testing.T) {
	const far = 100
	places := map[string]func(w *worker, s *stripe, to *Timeout){
		"inbox": func(w *worker, s *stripe, to *Timeout) {
			to.word.Store(pendingAt(queued, 2))
			s.push(to)
		},
		"nursery": func(w *worker, s *stripe, to *Timeout) {
			to.word.Store(pendingAt(young, far))
			s.nursery.put(to, w.queue.nearAt(far), false)
		},
		"nursery, to be given back": func(_ *worker, s *stripe, _ *Timeout) { s.nursery.table.Store(newTable(2 * minSlots)) },
		"nursery, to be taken": func(_ *worker, s *stripe, _ *Timeout) {
			s.nursery.table.Store(newTable(2 * minSlots))
			s.nursery.table.Load().older.Store(newTable(minSlots))
		},
	}
	for place, push := range places {
		timer := newFakedTimer(t, WithTick(time.Hour))
		w := &timer.worker
		w.progress.set(5, true) // so that the next tick is later than what an inbox needs
		for i := range timer.queue.stripes {
			require.True(t, w.requestRound())
			require.True(t, w.goIdle(math.MaxInt64, ticks.Never))
			require.True(t, w.requestRound())
			s := &timer.queue.stripes[i]
			push(w, s, &Timeout{timer: timer, task: TaskFunc(func(*Timeout) {})})
			require.False(t, w.goIdle(math.MaxInt64, ticks.Never), place)
			require.EqualValues(t, working, w.state.Load())
			left := w.goIdle(math.MaxInt64, w.progress.nextTick())
			w.state.Store(resting) // so that Stop does not wait for this round if the test fails
			require.True(t, left, place)
			setStripes(timer, len(timer.queue.stripes))
		}
	}
}

// A timer from outside is used in a bubble, with deadlines from outside, so that no call has read the clock. A call that would
// have to wake the worker reads it, panics, and changes nothing. Others work.
func TestForeignAtRest(t *testing.T) {
	for name, limit := range map[string]int{"no limit": 0, "with a limit": 100} {
		t.Run(name, func(t *testing.T) {
			timer := newTimer(t, WithTick(time.Millisecond), WithMaxPending(limit))
			s := oneStripe(timer)
			w := &timer.worker
			require.True(t, w.requestRound())
			w.round()
			w.expireDue()
			near, far := time.Now().Add(100*time.Millisecond), time.Now().Add(time.Hour)
			var plain, notified, placed, forward, canceled Timeout
			for to, task := range map[*Timeout]Task{&plain: plainFunc(nop), &notified: canceledTask{t}, &placed: plainFunc(nop),
				&forward: plainFunc(nop), &canceled: plainFunc(nop)} {
				timer.Bind(to, task)
			}
			group := NewGroup(timer)
			member, err := group.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
			require.True(t, member.Cancel())
			for _, to := range []*Timeout{&placed, &forward, &canceled} {
				_, err = to.ResetAt(far)
				require.NoError(t, err)
			}
			placed.word.And(^uint64(young)) // as if the worker had taken it
			_, err = forward.ResetAt(far.Add(-time.Second))
			require.NoError(t, err)
			require.NotZero(t, forward.word.Load()&hurried)
			require.True(t, canceled.Cancel())
			canceled.word.And(^uint64(young)) // as if a producer had dropped it

			state := func() string {
				return fmt.Sprint(timer.Pending(), group.Len(), timer.limit.inUse.Load(), s.accepted(), s.nursery.by.Load(),
					timer.queue.puts(), timer.Stats().Queued, plain.word.Load(), notified.word.Load(), placed.word.Load(), forward.word.Load(), canceled.word.Load(), member.word.Load())
			}
			require.True(t, w.goIdle(time.Hour, w.progress.nextTick()))
			comes := w.state.Load()
			w.progress.set(w.wheel.now, false) // as planNext does
			w.state.Store(resting)
			synctest.Test(t, func(t *testing.T) {
				for i, call := range []func(){
					func() { plain.ResetAt(far) },
					func() { notified.ResetAt(far) },
					func() { member.ResetAt(far) },
					func() { placed.ResetAt(far.Add(-time.Second)) },
					func() { forward.ResetAt(far.Add(-2 * time.Second)) },
					func() { canceled.ResetAt(far) },
					func() { timer.NewTimeoutAt(plainFunc(nop), near) },
					func() { timer.NewTimeoutAt(canceledTask{t}, far) },
				} {
					before := state()
					require.PanicsWithValue(t, foreignTimer, call, "call %d", i)
					require.Equal(t, before, state(), "call %d", i)
				}
				w.state.Store(comes)
				for _, deadline := range []time.Time{near, far} {
					_, err := timer.NewTimeoutAt(plainFunc(nop), deadline)
					require.NoError(t, err)
				}
			})
			setStripes(timer, 1)
			timer.limit.inUse.Store(0)
		})
	}
}
