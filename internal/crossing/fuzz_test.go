package crossing

import (
	"cmp"
	"container/heap"
	"log/slog"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// The tests turn bytes into operations, and compare the results with those of a simple model.

// FuzzTimer compares the whole timer with a heap, on virtual time. Without -fuzz it runs the inputs that were kept in testdata/fuzz.
func FuzzTimer(f *testing.F) {
	f.Add([]byte{2, 3, 0, 0, 0, 1, 5, 9, 200, 0, 2, 9, 3, 0, 9, 255})
	f.Add([]byte{1, 2, 1, 3, 0, 0, 1, 0, 0, 2, 0, 1, 3, 6, 0, 0, 1, 4, 9, 100, 4, 1, 9, 30, 9, 255, 9, 255})
	f.Add([]byte{4, 1, 2, 0, 7, 1, 5, 1, 20, 8, 1, 9, 1, 12, 9, 90, 5, 0, 1, 40, 9, 200, 3, 1, 9, 99, 10})
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) { fuzzTimer(t, testkit.NewTape(data)) })
	})
}

// TestTimerModel does the same as FuzzTimer with random bytes.
func TestTimerModel(t *testing.T) {
	r := testkit.Rand(t)
	for range testkit.NewShare(t).Rounds(5, testkit.Sized(100, 400, 4000)) {
		data := make([]byte, 100+r.IntN(900))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		synctest.Test(t, func(t *testing.T) { fuzzTimer(t, testkit.NewTape(data)) })
	}
}

func fuzzTimer(t *testing.T, p *testkit.Tape) {
	tick := []time.Duration{1, 10, 1001, time.Millisecond, 7 * time.Millisecond}[p.Below(5)]
	size, levels, limit := 1<<p.Below(6), 1+p.Below(4), 3*p.Below(4)
	var executor func(func()) error
	if p.Below(2) == 1 {
		executor = func(run func()) error { go run(); return nil }
	}
	timer := newTimer(t, hashedwheel.WithTick(tick), hashedwheel.WithWheelSize(size), hashedwheel.WithLevels(levels), hashedwheel.WithMaxPending(limit),
		hashedwheel.WithExecutor(executor), hashedwheel.WithPanicHandler(func(*hashedwheel.Timeout, any, []byte) {}),
		hashedwheel.WithLogger(slog.New(slog.DiscardHandler))) // it warns of short ticks
	o := &oracle{tick: tick, start: time.Now()}

	delay := func() time.Duration {
		switch p.Below(8) {
		case 0:
			return time.Duration(p.Below(3)-1) * tick
		case 1:
			return []time.Duration{math.MinInt64, math.MaxInt64, math.MaxInt64 - 1}[p.Below(3)]
		case 2, 3, 4:
			return time.Duration(p.Below(4*size)) * tick / 2
		}
		return time.Duration(p.Below(1<<16)) * tick / 3
	}
	arm := func(repeats, fromEnd, panics bool, variant int) {
		e := &expected{repeats: repeats, fromEnd: fromEnd}
		run := hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {
			e.ran.Note()
			if panics {
				panic("on purpose")
			}
		})
		d := delay()
		var err error
		switch {
		case !repeats && variant%4 == 1:
			e.to, err = timer.NewTimeoutAt(run, time.Now().Add(d))
		case !repeats && variant%4 >= 2:
			e.to = &e.own
			timer.Bind(e.to, run)
			if variant%4 == 2 { // idle, until a Reset arms it
				o.all = append(o.all, e)
				return
			}
			_, err = e.to.Reset(d)
		case !repeats:
			e.to, err = timer.NewTimeout(run, d)
		case fromEnd:
			e.period = tick * time.Duration(1+p.Below(5)) / 2
			e.period = max(e.period, 1)
			e.to, err = timer.ScheduleWithFixedDelay(run, d, e.period)
		default:
			e.period = max(tick*time.Duration(1+p.Below(50))/5, 1)
			e.to, err = timer.ScheduleAtFixedRate(run, d, e.period)
		}
		if limit > 0 && o.pending == limit {
			require.ErrorIs(t, err, hashedwheel.ErrTooManyPending)
			return
		}
		require.NoError(t, err)
		o.arm(e, d)
		o.all = append(o.all, e)
	}
	for steps := 0; !p.Empty() && steps < 300; steps++ {
		code := int(p.Byte())
		op, variant := code%12, code/12 // older inputs have variant 0, which keeps their meaning
		var any *expected
		if len(o.all) > 0 && op >= 3 && op < 8 {
			any = o.all[p.Below(len(o.all))]
		}
		switch {
		case op < 3:
			arm(op == 1 && p.Below(4) == 0, p.Below(2) == 0, p.Below(8) == 0, variant)
		case op < 8 && any == nil:
		case op < 5:
			any.canceled = any.canceled || any.pending
			require.Equal(t, any.pending, any.to.Cancel())
			o.disarm(any)
		case op < 8:
			d := delay()
			var active bool
			var err error
			switch variant % 4 {
			case 1, 2:
				active, err = any.to.ResetAt(time.Now().Add(d))
			case 3:
				active = any.to.Move(d)
			default:
				active, err = any.to.Reset(d)
			}
			require.Equal(t, any.pending, active)
			if !active && variant%4 == 3 {
				break
			}
			if !any.pending && limit > 0 && o.pending == limit {
				require.ErrorIs(t, err, hashedwheel.ErrTooManyPending)
				break
			}
			require.NoError(t, err)
			o.arm(any, d)
		case op == 11 && p.Below(16) == 0:
			var want []*hashedwheel.Timeout
			for _, e := range o.all {
				if e.pending {
					want = append(want, e.to)
					e.pending = false
				}
			}
			require.ElementsMatch(t, want, timer.Stop())
			require.Zero(t, claimed(t, want...))
			o.pending = 0
			_, err := timer.AfterFunc(0, nop)
			require.ErrorIs(t, err, hashedwheel.ErrStopped)
			o.check(t, timer)
			return
		default:
			d := time.Duration(p.Below(1<<16)) * tick / time.Duration(1+p.Below(1<<10))
			if o.runsUntil(d) > 500 {
				d = tick // a long time with a short period would take too long
			}
			testkit.Pass(d)
			o.expire()
		}
		o.check(t, timer)
	}
}

// An oracle knows when the tasks of a timer must run, from a heap of deadlines.
type oracle struct {
	tick    time.Duration
	start   time.Time
	all     []*expected
	heap    deadlines
	pending int
	runs    int // how many runs have been compared
}

// An expected is what the oracle knows about a timeout.
type expected struct {
	to                        *hashedwheel.Timeout
	own                       hashedwheel.Timeout // to points here if the timeout is a field
	repeats, fromEnd, pending bool
	armed                     bool // at least once
	canceled                  bool
	at                        time.Duration // the boundary of the last arming
	period                    time.Duration
	due                       time.Duration   // exactly, counted from start; a fixed rate counts the next run from it
	version                   int             // a deadline with another version does not count
	want                      []time.Time     // when its task should have run
	ran                       testkit.Moments // when its task has run
	checked                   int             // how many runs have been compared
}

// A deadline is when the task of an expected runs next.
type deadline struct {
	at      time.Duration // a boundary
	e       *expected
	version int
}

type deadlines []deadline

func (h deadlines) Len() int { return len(h) }

func (h deadlines) Less(i, j int) bool { return h[i].at < h[j].at }

func (h deadlines) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *deadlines) Push(x any) { *h = append(*h, x.(deadline)) }

func (h *deadlines) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func (o *oracle) now() time.Duration { return time.Since(o.start) }

// boundary returns the first tick boundary at or after d, or math.MaxInt64 if no Duration can represent it.
func (o *oracle) boundary(d time.Duration) time.Duration {
	if d > math.MaxInt64/o.tick*o.tick {
		return math.MaxInt64
	}
	return ((d-1)/o.tick + 1) * o.tick
}

// arm expects a run after a delay from now, and none of the runs that were expected before.
func (o *oracle) arm(e *expected, delay time.Duration) {
	o.disarm(e)
	e.armed, e.pending, e.canceled, e.at = true, true, false, math.MaxInt64
	o.pending++
	if delay > math.MaxInt64-1-o.now() {
		return // never
	}
	first := o.boundary(o.now() + max(delay, 1)) // never the present boundary
	e.at = first
	e.due = o.now() + max(delay, 0)
	if e.version > 1 { // a Reset: later runs count from the boundary
		e.due = first
	}
	o.push(e, first)
}

func (o *oracle) push(e *expected, at time.Duration) {
	if at < math.MaxInt64 {
		heap.Push(&o.heap, deadline{at, e, e.version})
	}
}

func (o *oracle) disarm(e *expected) {
	e.version++
	if e.pending {
		o.pending--
	}
	e.pending = false
}

// runsUntil returns about how many runs of repeating timeouts to expect within d.
func (o *oracle) runsUntil(d time.Duration) int {
	n := 0
	for _, e := range o.all {
		if e.pending && e.repeats {
			n += int(d / max(e.period, 1))
		}
	}
	return n
}

// expire expects all runs until now.
func (o *oracle) expire() {
	for now := o.now(); len(o.heap) > 0 && o.heap[0].at <= now; {
		d := heap.Pop(&o.heap).(deadline)
		e := d.e
		if !e.pending || e.version != d.version {
			continue
		}
		e.want = append(e.want, o.start.Add(d.at))
		switch {
		case !e.repeats:
			o.disarm(e)
		case e.fromEnd:
			o.push(e, o.boundary(d.at+e.period))
		default:
			// Missed runs follow at once.
			e.due += e.period
			for o.boundary(e.due) <= d.at {
				e.want = append(e.want, o.start.Add(d.at))
				e.due += e.period
			}
			o.push(e, o.boundary(e.due))
		}
	}
}

// check compares the expected runs and counts with those of the timer.
func (o *oracle) check(t *testing.T, timer *hashedwheel.Timer) {
	t.Helper()
	synctest.Wait() // a timeout on the queue may be due at the present boundary
	for i, e := range o.all {
		want, ran := e.want[e.checked:], e.ran.All()[e.checked:]
		e.checked += len(want)
		o.runs += len(want)
		if !slices.EqualFunc(want, ran, time.Time.Equal) {
			t.Fatalf("timeout %d, period %v: should have run at %v, ran at %v", i, e.period, o.since(want), o.since(ran))
		}
		require.Equal(t, e.pending && !timer.IsStopped(), e.armed && statusOf(e.to) == pending, "timeout %d", i)
		require.True(t, timer.IsStopped() || e.canceled == e.to.IsCanceled(), "timeout %d", i)
		if e.armed && !e.repeats && e.at < math.MaxInt64/2 { // later ones may be never
			require.Equal(t, e.at, e.to.Deadline().Sub(o.start), "timeout %d", i)
		}
	}
	st := timer.Stats()
	require.Equal(t, o.pending, st.Pending)
	require.EqualValues(t, o.runs, st.Expired)
	testkit.CheckCounts(t, st)
}

func (o *oracle) since(all []time.Time) (since []time.Duration) {
	for _, at := range all {
		since = append(since, at.Sub(o.start))
	}
	slices.SortFunc(since, cmp.Compare[time.Duration])
	return since
}
