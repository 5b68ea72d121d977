package testkit

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// hangs is how long a test may take, unless HASHEDWHEEL_HANG says otherwise. It is more than Patience, so that a test that waits
// for something fails by itself, and says for what.
const hangs = time.Minute

// A watchdog ends the process when a test hangs, and prints which test it is and the stacks of all goroutines. The go command
// would do so after ten minutes. Inside a bubble, package synctest notices if all goroutines wait, but not if one of them loops.
//
// It counts the time that the process had: processor time, or time in which the process did nothing. So a busy machine makes no
// test hang. Time in which other processes work for the test does not count.
type watchdog struct {
	limit time.Duration
	every time.Duration // from one look to the next

	mu      sync.Mutex
	look    *time.Timer // not a goroutine, because some tests look for those
	stopped bool
	running []string      // tests that have begun and not ended
	had     time.Duration // since a test began or ended
	cpu     time.Duration // at the last look
}

// limitOfTests returns how long a test may take, or 0 if nothing limits it: while a target is fuzzed, and if one of the variables
// is set that make tests longer.
func limitOfTests() time.Duration {
	if value := os.Getenv("HASHEDWHEEL_HANG"); value != "" {
		d, err := time.ParseDuration(value)
		if err != nil {
			panic("HASHEDWHEEL_HANG: " + err.Error())
		}
		return d
	}
	longer := func(variable string) bool {
		return strings.HasPrefix(variable, "HASHEDWHEEL_") && !strings.HasSuffix(variable, "=")
	}
	fuzzes := func(arg string) bool { return strings.HasPrefix(arg, "-test.fuzz=") }
	switch {
	case OneThread || slices.ContainsFunc(os.Environ(), longer) || slices.ContainsFunc(os.Args, fuzzes):
		return 0
	case RaceDetector():
		return 5 * hangs
	}
	return hangs
}

// watch starts a watchdog for the tests and fuzz targets of m.
func watch(m *testing.M) (stop func()) {
	limit := limitOfTests()
	if limit <= 0 {
		return func() {}
	}
	w := &watchdog{limit: limit, every: min(limit/8, time.Second)}
	tests := fieldOf[[]testing.InternalTest](m, "tests")
	for i := range tests {
		run := tests[i].F
		tests[i].F = func(t *testing.T) { defer w.begin(tests[i].Name)(); run(t) }
	}
	targets := fieldOf[[]testing.InternalFuzzTarget](m, "fuzzTargets")
	for i := range targets {
		run := targets[i].Fn
		targets[i].Fn = func(f *testing.F) { defer w.begin(targets[i].Name)(); run(f) }
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look = time.AfterFunc(w.every, w.onLook)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stopped = true
		w.look.Stop()
	}
}

// fieldOf returns a field of m. Package testing has no other way to learn when a test begins.
func fieldOf[T any](m *testing.M, name string) T {
	f := reflect.ValueOf(m).Elem().FieldByName(name)
	if !f.IsValid() || f.Type() != reflect.TypeFor[T]() {
		panic("testkit: package testing keeps its tests in another way: field " + name)
	}
	return *(*T)(unsafe.Pointer(f.UnsafeAddr()))
}

// begin notes that a test has begun, and returns a function that notes that it has ended.
func (w *watchdog) begin(name string) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.had = append(w.running, name), 0
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		at := slices.Index(w.running, name)
		w.running, w.had = slices.Delete(w.running, at, at+1), 0
	}
}

// onLook adds the time since the last look, and ends the process if no test has begun or ended for too long.
func (w *watchdog) onLook() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	defer w.look.Reset(w.every)
	cpu, _ := processTime()
	used := cpu - w.cpu
	w.cpu = cpu
	if used < w.every/20 {
		used = w.every // it did nothing
	}
	w.had += min(used, w.every)
	if len(w.running) == 0 || w.had < w.limit { // benchmarks may take longer
		return
	}
	stacks := make([]byte, 64<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if bytes.Contains(stacks, []byte("os/exec.(*Cmd).Wait(")) {
		w.had = 0 // another process works
		return
	}
	debug.SetTraceback("all")
	panic(fmt.Sprintf("%s: no test has begun or ended for %v: one hangs, or needs HASHEDWHEEL_HANG to be longer",
		strings.Join(w.running, ", "), w.limit))
}
