// Package testkit has what the tests of several packages need.
package testkit

import (
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// Main runs the tests of a package. It ends a test that hangs: see watchdog. It fails if they leave a goroutine behind, and
// ignores goroutines with one of these functions on their stacks.
func Main(m *testing.M, ignored ...string) {
	var options []goleak.Option
	for _, name := range append(ignored, "runtime.handleEvent") { // a goroutine of the runtime, on js
		options = append(options, goleak.IgnoreAnyFunction(name))
	}
	slog.SetLogLoggerLevel(slog.LevelError) // the warnings of many tests would hide the failure of one
	goleak.VerifyTestMain(watched{m}, options...)
}

// A watched runs tests beside a watchdog.
type watched struct{ m *testing.M }

func (w watched) Run() int {
	defer watch(w.m)()
	return w.m.Run()
}

// CPUTime returns the CPU time of the process. Where it is not known, it skips the test.
func CPUTime(t testing.TB) time.Duration {
	t.Helper()
	cpu, known := processTime()
	if !known {
		t.Skip("the CPU time is not known on this system")
	}
	return cpu
}

// Virtual runs a test on virtual time, in a bubble of its own for each number of levels: 1 to 4. With -short only one,
// 1 or 3, which depends on the length of its name.
func Virtual(t *testing.T, f func(t *testing.T, levels int)) {
	t.Helper()
	first := Sized(1+len(t.Name())%2*2, 1, 1)
	for levels := first; levels <= Sized(first, 4, 4); levels++ {
		t.Run(fmt.Sprint("levels=", levels), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, levels) })
		})
	}
}

// Boundary returns the first multiple of tick at or after d.
func Boundary(d, tick time.Duration) time.Duration { return (d + tick - 1) / tick * tick }

// CheckCounts checks that the counts in the Stats of a timer at rest agree. It finds the fields by name, because the
// tests of package hashedwheel use this package, which therefore cannot import it.
func CheckCounts(t testing.TB, stats any) {
	t.Helper()
	st := reflect.ValueOf(stats)
	sum := uint64(st.FieldByName("Pending").Int())
	for _, end := range []string{"Expired", "Canceled", "Returned"} {
		sum += st.FieldByName(end).Uint()
	}
	require.Equal(t, st.FieldByName("Accepted").Uint(), sum, "%+v", stats)
}

// OneThread is true if all goroutines share one thread and none is preempted: each runs until it blocks or
// yields. Such a platform cannot start other processes.
const OneThread = runtime.GOARCH == "wasm"

// NeedsThreads skips a test that needs goroutines that run at the same time.
func NeedsThreads(t testing.TB) {
	t.Helper()
	if OneThread {
		t.Skip("needs threads: here goroutines never run at the same time")
	}
}

// NeedsProcesses skips a test that starts other programs.
func NeedsProcesses(t testing.TB) {
	t.Helper()
	if OneThread {
		t.Skip("needs processes: here no program can be started")
	}
}

// Spin is called in each turn of a loop that neither blocks nor yields. If all goroutines share one thread, it
// yields, so that others can run. Otherwise it does nothing, so that the loop keeps a processor busy.
func Spin() {
	if OneThread {
		runtime.Gosched()
	}
}

// Hog keeps a processor busy until it is told to quit. It calls a function, because a loop without a call is
// not always preempted under an emulator.
func Hog(quit *atomic.Bool) {
	for !quit.Load() {
		_ = time.Now()
		Spin()
	}
}

// Rand returns a generator. Its seed is in the log of the test. HASHEDWHEEL_SEED sets the seed.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("HASHEDWHEEL_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("HASHEDWHEEL_SEED: %v", err)
		}
	}
	t.Logf("HASHEDWHEEL_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Full reports whether HASHEDWHEEL_FULL is set. Then tests that are short by default run at full size, which
// takes some minutes.
func Full() bool { return os.Getenv("HASHEDWHEEL_FULL") != "" }

// Sized returns the size of a test: with -short, by default, or at full size.
func Sized[T any](short, daily, full T) T {
	switch {
	case Full():
		return full
	case testing.Short():
		return short
	}
	return daily
}

// share is how long a model goes on. So a slow machine does less of it, and takes no longer. On two usual
// processors nearly all of them end before that.
func share() time.Duration { return Sized(100*time.Millisecond, 300*time.Millisecond, 0) }

// endOfShare returns when a model that begins now is to end, or the zero Time if it may take as long as it
// needs. That is so at full size, and with HASHEDWHEEL_SEED, because the fault of a seed may come late.
func endOfShare() (end time.Time) {
	if d := share(); d > 0 && os.Getenv("HASHEDWHEEL_SEED") == "" {
		end = time.Now().Add(d)
	}
	return end
}

// A Share counts the rounds of a model, and ends them at the end of its share of time. The test that makes it must not
// be in a bubble of testing/synctest.
type Share struct {
	end        time.Time
	done, most int
}

// NewShare returns a Share that begins now. When the test ends, it logs how far it came.
func NewShare(t testing.TB) *Share {
	t.Helper()
	start, s := time.Now(), &Share{end: endOfShare()}
	t.Cleanup(func() {
		t.Logf("%d of %d rounds, in %v", s.done, s.most, time.Since(start).Round(time.Millisecond))
	})
	return s
}

// Rounds yields 0, 1, 2 and so on, most times. After the end of the share it yields only until it has done so least
// times.
func (s *Share) Rounds(least, most int) iter.Seq[int] {
	return func(yield func(int) bool) {
		s.most += most
		for i := range most {
			if over := !s.end.IsZero() && time.Now().After(s.end); over && i >= least || !yield(i) {
				return
			}
			s.done++
		}
	}
}

// LengthOf returns the duration in an environment variable, or otherwise if the variable is not set.
func LengthOf(t testing.TB, variable string, otherwise time.Duration) time.Duration {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return d
}

// StressTime returns how long a test on real time runs: HASHEDWHEEL_STRESS, or a default.
func StressTime(t testing.TB) time.Duration {
	t.Helper()
	return LengthOf(t, "HASHEDWHEEL_STRESS", Sized(25*time.Millisecond, 150*time.Millisecond, 5*time.Second))
}

// Patience is how long a test waits for something that must happen. On a busy machine that may take long, but
// only a defect makes it take longer than this.
const Patience = 50 * time.Second

// GoesOn reports whether a race test continues. It continues until end, and then until it has seen every
// outcome, which may take long on a busy machine, but not for longer than Patience. If all goroutines
// share one thread, it lets others run.
func GoesOn(end time.Time, seen bool) bool {
	Spin()
	now := time.Now()
	return now.Before(end) || !seen && now.Before(end.Add(Patience))
}

// Pass lets virtual time pass, and returns when all due work has been done.
func Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// SetWall changes the wall clock reading of a time by whole seconds, but not its monotonic reading, as if the wall clock had been
// set just before the time was read. Package time keeps the seconds above 30 bits of nanoseconds.
func SetWall(t *time.Time, by time.Duration) {
	before := *t
	*(*uint64)(unsafe.Pointer(t)) += uint64(by/time.Second) << 30
	if t.Sub(before) != 0 || t.Round(0).Sub(before.Round(0)) != by {
		panic("testkit: package time keeps the readings of a Time in another way")
	}
}

// HeapInUse returns the bytes of the heap that are reachable. It collects garbage twice, because what lies in a
// sync.Pool survives the first time.
func HeapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// RaceDetector reports whether the race detector is on. Then sync.Pool drops some of the values put into it, at
// random.
func RaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// An Executor keeps the functions that are submitted to it, until the test takes or runs them.
type Executor struct {
	mu   sync.Mutex
	held []func()
}

// Submit takes a function. It has the type that an executor needs.
func (e *Executor) Submit(run func()) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = append(e.held, run)
	return nil
}

// Take removes the functions from the executor and returns them.
func (e *Executor) Take() []func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := e.held
	e.held = nil
	return held
}

// RunAll runs the functions one after another, and returns their number.
func (e *Executor) RunAll() (n int) {
	for _, run := range e.Take() {
		run()
		n++
	}
	return n
}
