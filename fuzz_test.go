package hashedwheel

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
	"github.com/stretchr/testify/require"
)

// Both fuzz targets turn bytes into operations, and compare the results with those of a simple model. Without
// -fuzz they run the inputs that were kept in testdata/fuzz.

// A tape turns bytes into numbers. When the bytes are used up, it returns zeros.
type tape struct{ data []byte }

func (p *tape) empty() bool { return len(p.data) == 0 }

func (p *tape) byte() (b byte) {
	if len(p.data) > 0 {
		b, p.data = p.data[0], p.data[1:]
	}
	return b
}

// below returns a number from 0 to n-1, made of one byte or two.
func (p *tape) below(n int) int {
	x := int(p.byte())
	if n > 1<<8 {
		x = x<<8 | int(p.byte())
	}
	return x % n
}

// FuzzWheel compares the wheel alone with a list, and checks the invariants of the wheel after each step.
func FuzzWheel(f *testing.F) {
	f.Add([]byte{3, 2, 0, 0, 1, 9, 0, 2, 200, 9, 5, 3, 0, 9, 200})
	f.Add([]byte{0, 0, 1, 0, 0, 3, 0, 1, 7, 7, 9, 9, 9, 9, 9, 9, 9, 1, 1})
	f.Add([]byte{2, 3, 2, 0, 2, 77, 0, 1, 12, 0, 0, 1, 4, 0, 5, 0, 1, 9, 2, 33, 8, 8, 9, 2, 200})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &tape{data}
		size, levels := uint64(1)<<p.below(7), 1+p.below(5)
		start := []uint64{0, 1000, ticks.Never - 500, 1<<32 - 100}[p.below(4)]
		w := newWheel(int(size), levels, start)
		var model []*Timeout // the timeouts in the wheel that are pending
		// delay returns up to three times the reach of a level, but not beyond ticks.Never.
		delay := func() uint64 {
			reach := size
			for range p.below(levels + 1) {
				reach *= size
			}
			d := 1 + uint64(p.below(1<<16))%(3*reach)
			return min(d, ticks.Never-w.now)
		}
		drop := func(to *Timeout) {
			model = slices.DeleteFunc(model, func(other *Timeout) bool { return other == to })
		}
		for !p.empty() {
			op := p.below(10)
			var any *Timeout
			if len(model) > 0 && op >= 3 && op < 8 {
				any = model[p.below(len(model))]
			}
			switch {
			case op < 3:
				to := testTimeout(w.now + delay())
				w.place(to, tickOf(to.word.Load()))
				model = append(model, to)
			case op < 8 && any == nil:
			case op == 3: // cancel it, and remove it as settle does
				w.remove(any)
				drop(any)
			case op == 4: // cancel it and do not call the wheel
				any.word.Store(withStatus(any.word.Load(), canceled))
				drop(any)
			case op == 5: // set atWork and do not call the wheel
				any.word.Store(any.word.Load() | atWork)
				drop(any)
			case op == 6: // reset it, and move it as settle does
				tick := w.now + delay()
				any.word.Store(pendingAt(0, tick))
				w.move(any, tick)
			case op == 7: // reset it to later and do not call the wheel
				tick := tickOf(any.word.Load())
				any.word.Store(pendingAt(0, tick+min(delay(), ticks.Never-tick)))
			case op == 8:
				w.cascade(func(to *Timeout) { t.Fatalf("emitted by cascade: %x", to.word.Load()) })
				w.refresh()
			default:
				now := w.now + min(delay(), ticks.Never-1-w.now)
				got := collect(t, w, now)
				var want []*Timeout
				model = slices.DeleteFunc(model, func(to *Timeout) bool {
					due := tickOf(to.word.Load()) <= now
					if due {
						want = append(want, to)
					}
					return due
				})
				require.ElementsMatch(t, want, got)
			}
			w.check(t)
		}
	})
}

// FuzzTimer compares the whole timer with a heap, on virtual time.
func FuzzTimer(f *testing.F) {
	f.Add([]byte{2, 3, 0, 0, 0, 1, 5, 9, 200, 0, 2, 9, 3, 0, 9, 255})
	f.Add([]byte{1, 2, 1, 3, 0, 0, 1, 0, 0, 2, 0, 1, 3, 6, 0, 0, 1, 4, 9, 100, 4, 1, 9, 30, 9, 255, 9, 255})
	f.Add([]byte{4, 1, 2, 0, 7, 1, 5, 1, 20, 8, 1, 9, 1, 12, 9, 90, 5, 0, 1, 40, 9, 200, 3, 1, 9, 99, 10})
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) { fuzzTimer(t, &tape{data}) })
	})
}

func fuzzTimer(t *testing.T, p *tape) {
	tick := []time.Duration{1, 10, 1001, time.Millisecond, 7 * time.Millisecond}[p.below(5)]
	size, levels, limit := 1<<p.below(6), 1+p.below(4), 3*p.below(4)
	var executor func(func()) error
	if p.below(2) == 1 {
		executor = func(run func()) error { go run(); return nil }
	}
	timer := newTimer(t, WithTick(tick), WithWheelSize(size), WithLevels(levels), WithMaxPending(limit),
		WithExecutor(executor), WithPanicHandler(func(*Timeout, any, []byte) {}))
	o := &oracle{tick: tick, start: time.Now()}

	delay := func() time.Duration {
		switch p.below(8) {
		case 0:
			return time.Duration(p.below(3)-1) * tick
		case 1:
			return []time.Duration{math.MinInt64, math.MaxInt64, math.MaxInt64 - 1}[p.below(3)]
		case 2, 3, 4:
			return time.Duration(p.below(4*size)) * tick / 2
		}
		return time.Duration(p.below(1<<16)) * tick / 3
	}
	arm := func(repeats, fromEnd, panics bool, variant int) {
		e := &expected{repeats: repeats, fromEnd: fromEnd}
		run := TaskFunc(func(*Timeout) {
			e.ran.note()
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
			timer.Init(e.to, run)
			if variant%4 == 2 { // idle, until a Reset arms it
				o.all = append(o.all, e)
				return
			}
			_, err = e.to.Reset(d)
		case !repeats:
			e.to, err = timer.NewTimeout(run, d)
		case fromEnd:
			e.period = tick * time.Duration(1+p.below(5)) / 2
			e.period = max(e.period, 1)
			e.to, err = timer.ScheduleWithFixedDelay(run, d, e.period)
		default:
			e.period = max(tick*time.Duration(1+p.below(50))/5, 1)
			e.to, err = timer.ScheduleAtFixedRate(run, d, e.period)
		}
		if limit > 0 && o.pending == limit {
			require.ErrorIs(t, err, ErrTooManyPending)
			return
		}
		require.NoError(t, err)
		o.arm(e, d)
		o.all = append(o.all, e)
	}
	for steps := 0; !p.empty() && steps < 300; steps++ {
		code := int(p.byte())
		op, variant := code%12, code/12 // older inputs have variant 0, which keeps their meaning
		var any *expected
		if len(o.all) > 0 && op >= 3 && op < 8 {
			any = o.all[p.below(len(o.all))]
		}
		switch {
		case op < 3:
			arm(op == 1 && p.below(4) == 0, p.below(2) == 0, p.below(8) == 0, variant)
		case op < 8 && any == nil:
		case op < 5:
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
				require.ErrorIs(t, err, ErrTooManyPending)
				break
			}
			require.NoError(t, err)
			o.arm(any, d)
		case op == 11 && p.below(16) == 0:
			var want []*Timeout
			for _, e := range o.all {
				if e.pending {
					want = append(want, e.to)
					e.pending = false
				}
			}
			require.ElementsMatch(t, want, timer.Stop())
			o.pending = 0
			_, err := timer.AfterFunc(0, nop)
			require.ErrorIs(t, err, ErrStopped)
			o.check(t, timer)
			return
		default:
			d := time.Duration(p.below(1<<16)) * tick / time.Duration(1+p.below(1<<10))
			if o.runsUntil(d) > 500 {
				d = tick // a long time with a short period would take too long
			}
			pass(d)
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
	to                        *Timeout
	own                       Timeout // to points here if the timeout is a field
	repeats, fromEnd, pending bool
	period                    time.Duration
	due                       time.Duration // exactly, counted from start; a fixed rate counts the next run from it
	version                   int           // a deadline with another version does not count
	want                      []time.Time   // when its task should have run
	ran                       moments       // when its task has run
	checked                   int           // how many runs have been compared
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
	e.pending = true
	o.pending++
	if delay > math.MaxInt64-1-o.now() {
		return // never
	}
	first := o.boundary(o.now() + max(delay, 1)) // never the present boundary
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
func (o *oracle) check(t *testing.T, timer *Timer) {
	t.Helper()
	synctest.Wait() // a timeout on the queue may be due at the present boundary
	for i, e := range o.all {
		e.ran.mu.Lock()
		want, ran := e.want[e.checked:], e.ran.at[e.checked:]
		e.ran.mu.Unlock()
		e.checked += len(want)
		o.runs += len(want)
		if !slices.EqualFunc(want, ran, time.Time.Equal) {
			t.Fatalf("timeout %d, period %v: should have run at %v, ran at %v", i, e.period, o.since(want), o.since(ran))
		}
		require.Equal(t, e.pending && !timer.IsStopped(), status(e.to.word.Load()) == pending, "timeout %d", i)
	}
	st := timer.Stats()
	require.Equal(t, o.pending, st.Pending)
	require.EqualValues(t, o.runs, st.Expired)
	require.Equal(t, st.Accepted, st.Expired+st.Canceled+st.Returned+uint64(st.Pending), fmt.Sprintf("%+v", st))
}

func (o *oracle) since(all []time.Time) (since []time.Duration) {
	for _, at := range all {
		since = append(since, at.Sub(o.start))
	}
	slices.SortFunc(since, cmp.Compare[time.Duration])
	return since
}
