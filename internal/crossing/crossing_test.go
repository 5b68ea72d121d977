package crossing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
	"github.com/hashedwheel/hashedwheel/keyed"
)

// TestCrossing crosses all features, through the public methods alone. Each round has a timer with random options.
// Goroutines call all methods at random, and so does each piece of user code that the timer calls. A round ends by
// Stop, by Shutdown, or when nothing is pending any more. Then the ledgers of all timeouts must agree with Stats, and nothing
// is left of the timer.
// HASHEDWHEEL_SOAK sets how long the test runs. calls_test.go has the timeouts and the calls.
func TestCrossing(t *testing.T) {
	r := testkit.Rand(t)
	length := testkit.LengthOf(t, "HASHEDWHEEL_SOAK", testkit.Sized(150*time.Millisecond, time.Second, time.Minute))
	var total [7]uint64
	rounds, heap := 0, uint64(0)
	seen := func() bool { return rounds > 2 && !slices.Contains(total[:], 0) }
	for end := time.Now().Add(length); testkit.GoesOn(end, seen()); rounds++ {
		if rounds == 2 { // the rounds before also allocate what package time, the maps of testing and the like keep
			heap = testkit.HeapInUse()
		}
		w := newWorld(t, r)
		w.run(r)
		if t.Failed() {
			return
		}
		st := w.timer.Stats()
		for i, n := range []uint64{st.Expired, st.Canceled, st.Returned, st.RejectedFull + st.RejectedStopped, st.Panics, st.Unsubmitted, uint64(w.told.Load())} {
			total[i] += n
		}
	}
	t.Logf("%d rounds; expired, canceled, returned, refused, panics, unsubmitted, notices: %d", rounds, total)
	require.True(t, seen(), "one of the outcomes did not occur")
	time.Sleep(1100 * time.Millisecond) // real time: for a second after the last end, the runtime may have a timer that leads to a Timer
	require.Less(t, testkit.HeapInUse(), heap+1<<20+uint64(runtime.GOMAXPROCS(0))<<13, "memory grows")
}

// A world is the timer of a round, and all that happens to it.
type world struct {
	t       *testing.T
	timer   *hashedwheel.Timer
	group   atomic.Pointer[hashedwheel.Group]
	clock   *clock.Clock
	keyed   *keyed.Map[int, *entry]
	options string         // for messages
	base    time.Time      // times count from here
	exact   bool           // no keyed.Map, Sleep or clock, so that the ledgers have all timeouts of the timer
	limit   int            // WithMaxConcurrency
	most    int            // WithMaxPending
	pool    chan bool      // has room for the jobs of an executor that is a pool
	funcs   sync.WaitGroup // functions of the clock that are yet to be called
	unblock chan struct{}  // closed when submit must no longer block

	mayStop atomic.Bool // user code may stop the timer
	quit    atomic.Bool // no new calls
	over    atomic.Bool // a Shutdown has returned nil

	acting        atomic.Int64 // calls of act in progress
	running       atomic.Int64 // tasks
	told          atomic.Int64 // calls of Canceled
	toTell        atomic.Int64 // how many of them are owed by the Cancels that have returned
	groupCanceled atomic.Int64 // results of Group.Cancel and Group.Close
	panics        atomic.Int64
	refused       atomic.Int64

	shared [50]atomic.Pointer[subject] // known to all goroutines

	mu       sync.Mutex
	subjects []*subject             // each one ever made
	entries  []*entry               // each one ever set
	returned []*hashedwheel.Timeout // by Stop and Shutdown
}

func newWorld(t *testing.T, r *rand.Rand) *world {
	w := &world{t: t, base: time.Now(), exact: r.IntN(2) == 0, pool: make(chan bool, 3), unblock: make(chan struct{})}
	pick := func(choices ...int) int { return choices[r.IntN(len(choices))] }
	tick, size, levels := time.Duration(100+r.IntN(2000))*time.Microsecond, 1+r.IntN(16), 1+r.IntN(3)
	w.most, w.limit = pick(0, 0, 5, 40), pick(0, 0, 1, 2, 1_000_000)
	kind := r.IntN(len(executors) + 1) // the last one mixes all others
	submit := func(run func()) error {
		w.user(false, nil)
		if kind == len(executors) {
			return executors[rand.IntN(len(executors))](w, run)
		}
		return executors[kind](w, run)
	}
	if r.IntN(3) == 0 {
		submit, kind = nil, -1
	}
	handler := w.handlePanic
	if r.IntN(2) == 0 {
		handler = nil
	}
	w.options = fmt.Sprintf("tick %v, %d buckets, %d levels, pending %d, concurrency %d, executor %d, handler %v, exact %v",
		tick, size, levels, w.most, w.limit, kind, handler != nil, w.exact)
	var err error
	w.timer, err = hashedwheel.New(hashedwheel.WithTick(tick), hashedwheel.WithWheelSize(size), hashedwheel.WithLevels(levels),
		hashedwheel.WithMaxPending(w.most), hashedwheel.WithMaxConcurrency(w.limit), hashedwheel.WithExecutor(submit),
		hashedwheel.WithPanicHandler(handler), hashedwheel.WithLogger(slog.New(logger{slog.DiscardHandler, w})),
		hashedwheel.WithName([]string{"", "some"}[r.IntN(2)]))
	require.NoError(t, err)
	w.group.Store(hashedwheel.NewGroup(w.timer))
	w.clock = clock.New(w.timer)
	w.keyed = keyed.New(w.timer, w.expire)
	return w
}

// executors are what an executor may do with a function.
var executors = []func(w *world, run func()) error{
	func(w *world, run func()) error { go run(); return nil },
	func(_ *world, run func()) error { run(); return nil },
	func(w *world, run func()) error { // a pool
		select {
		case w.pool <- true:
			go func() {
				defer func() { <-w.pool }()
				run()
			}()
			return nil
		default:
			return errors.New("full")
		}
	},
	func(w *world, run func()) error {
		if rand.IntN(20) == 0 { // Shutdown does not wait for it
			<-w.unblock
		}
		time.Sleep(rand.N(time.Millisecond))
		go run()
		return nil
	},
	func(w *world, run func()) error { go run(); run(); return nil },
	func(w *world, run func()) error { go run(); run(); return errors.New("too late") },
	func(w *world, run func()) error { go run(); w.panic(); return nil },
	func(*world, func()) error { return errors.New("full") },
	func(w *world, _ func()) error { w.panic(); return nil },
	func(*world, func()) error { runtime.Goexit(); return nil },
}

// onPurpose is the value of all panics of the test.
const onPurpose = "on purpose"

func (w *world) panic() {
	w.panics.Add(1)
	panic(onPurpose)
}

// handlePanic is the panic handler.
func (w *world) handlePanic(to *hashedwheel.Timeout, value any, stack []byte) {
	if value != onPurpose {
		w.errorf("a panic that is not the test's, of %v: %v\n%s", to, value, stack)
	}
	own, _ := to.Task().(*subject)
	w.user(false, own)
	if rand.IntN(8) == 0 {
		runtime.Goexit()
	}
}

// logger is the handler of the logger.
type logger struct {
	slog.Handler
	w *world
}

func (l logger) Enabled(context.Context, slog.Level) bool { return true }

func (l logger) Handle(context.Context, slog.Record) error {
	l.w.user(false, nil)
	if rand.IntN(8) == 0 {
		runtime.Goexit()
	}
	return nil
}

func (w *world) errorf(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("%s: %s", w.options, fmt.Sprintf(format, args...))
}

// run lets goroutines call methods for some milliseconds, ends the timer, and checks the ledgers.
func (w *world) run(r *rand.Rand) {
	leaks := goleak.IgnoreCurrent()
	guard := time.AfterFunc(testkit.Patience, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("%s: no progress for %v", w.options, testkit.Patience))
	})
	defer guard.Stop()
	var users sync.WaitGroup
	for range r.IntN(2 * runtime.GOMAXPROCS(0)) {
		users.Go(func() { testkit.Hog(&w.quit) })
	}
	for range 4 {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		users.Go(func() {
			for !w.quit.Load() {
				for range 20 {
					w.act(r.IntN, false, nil)
				}
				time.Sleep(time.Duration(r.IntN(500)) * time.Microsecond)
			}
		})
	}
	time.Sleep(time.Duration(5+r.IntN(25)) * time.Millisecond)
	end := r.IntN(3)
	switch end {
	case 0:
		w.takeBack(w.timer.Stop())
	case 1:
		w.mayStop.Store(true)
	}
	time.Sleep(5 * time.Millisecond)
	w.quit.Store(true)
	users.Wait()
	for w.acting.Load() > 0 { // in user code
		time.Sleep(time.Millisecond)
	}
	if end == 2 {
		close(w.unblock)
		w.drain()
	}
	require.NoError(w.t, w.shutdown(testkit.Patience, false), w.options)
	if end != 2 {
		close(w.unblock)
	}
	w.funcs.Wait()
	// Waits for the executor, and for a submit that was in progress. See TestMain for handleEvent.
	goleak.VerifyNone(w.t, leaks, goleak.IgnoreAnyFunction("runtime.handleEvent"))
	w.check()
}

// drain cancels what does not end by itself, and waits for the rest. The guard notices what is never run.
func (w *world) drain() {
	st := w.timer.Stats()
	for ; st.Pending > 0 || st.Running > 0; st = w.timer.Stats() {
		for _, s := range w.subjects {
			if to := s.to.Load(); to != nil && (s.repeats || time.Until(to.Deadline()) > time.Second) {
				s.use(s.cancel)
			}
		}
		time.Sleep(time.Millisecond)
	}
	if n := w.keyed.Len(); n > 0 || st.Accepted != st.Expired+st.Canceled {
		w.errorf("drained, with %d keys: %+v", n, st)
	}
	for i := range w.most + min(w.most, 1) { // each slot is free again, and there is no other
		s := &subject{w: w, kind: plain}
		to, err := w.timer.NewTimeout(s, time.Hour)
		if (err == hashedwheel.ErrTooManyPending) != (i == w.most) {
			w.errorf("%d are pending, and arming one more returns %v", i, err)
		}
		if err == nil {
			s.to.Store(to)
			s.armed.Add(1)
			w.subjects = append(w.subjects, s)
		}
	}
	for _, s := range w.subjects {
		if to := s.to.Load(); to != nil {
			s.use(s.cancel)
		}
	}
}

// check compares the ledgers with each other and with Stats. Nothing is in progress any more.
func (w *world) check() {
	owners := make(map[*hashedwheel.Timeout]*subject)
	for _, s := range w.subjects {
		owners[s.to.Load()] = s
	}
	for _, to := range w.returned {
		claimed := to.Cancel()
		if to.Cancel() || !to.IsCanceled() {
			w.errorf("returned, and canceled twice: %v", to)
		}
		if s := owners[to]; s != nil {
			s.returned.Add(1)
			if !claimed {
				s.canceled.Add(-1) // one of its Cancels was for what Stop had returned
			}
		} else if w.exact {
			w.errorf("returned, but the test has not armed it: %v", to)
		}
	}
	var armed, ran, canceled, endings int64
	for _, s := range w.subjects {
		s.check()
		armed += s.armed.Load()
		ran += s.ran.Load()
		canceled += s.canceled.Load()
		if s.repeats {
			armed += s.ran.Load() // each run arms the next one, except where the schedule has ended
			endings += s.endings.Load()
		}
	}
	canceled += w.groupCanceled.Load()
	for _, e := range w.entries {
		if n := e.expired.Load(); n > 1 || n > 0 && e.removed.Load() {
			w.errorf("a key has expired %d times; removed: %v", n, e.removed.Load())
		}
	}
	for k, e := range w.keyed.All() {
		if e.expired.Load() > 0 {
			w.errorf("key %d has expired, and is still there", k)
		}
	}
	st := w.timer.Stats()
	ok := st.Accepted == st.Expired+st.Canceled+st.Returned && st.Pending == 0 && st.Running == 0 &&
		st.Returned == uint64(len(w.returned)) && st.Panics == uint64(w.panics.Load()) &&
		int64(st.Expired) >= ran && int64(st.Canceled) >= canceled && int64(st.RejectedFull+st.RejectedStopped) >= w.refused.Load()
	if ended := armed - int64(st.Accepted); w.exact {
		ok = ok && int64(st.Expired) == ran && int64(st.Canceled) == canceled && ended >= 0 && ended <= endings
	}
	if !ok {
		w.errorf("armed %d, less up to %d, ran %d, canceled %d, returned %d, refused %d, panics %d: %+v",
			armed, endings, ran, canceled, len(w.returned), w.refused.Load(), w.panics.Load(), st)
	}
}
