// Package time_test declares the names that the tests of package time use. Here most of them stand for
// package clock. TestTestsOfPackageTime adds the tests.
package time_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
)

type (
	Duration = time.Duration
	Ticker   = clock.Ticker
	Time     = time.Time
	Timer    = clock.Timer
)

const (
	Nanosecond  = time.Nanosecond
	Microsecond = time.Microsecond
	Millisecond = time.Millisecond
	Second      = time.Second
	Minute      = time.Minute
	Hour        = time.Hour
)

var (
	tick = flag.Duration("tick", time.Millisecond, "of the wheel")
	on   *clock.Clock
)

func TestMain(m *testing.M) {
	flag.Parse()
	timer, err := hashedwheel.New(hashedwheel.WithTick(*tick))
	if err != nil {
		panic(err)
	}
	on = clock.New(timer)
	os.Exit(m.Run())
}

func After(d Duration) <-chan Time          { return on.After(d) }
func AfterFunc(d Duration, f func()) *Timer { return on.AfterFunc(d, f) }
func NewTicker(d Duration) *Ticker          { return on.NewTicker(d) }
func NewTimer(d Duration) *Timer            { return on.NewTimer(d) }
func Now() Time                             { return on.Now() }
func Since(t Time) Duration                 { return on.Since(t) }
func Sleep(d Duration)                      { on.Sleep(d) }
func Tick(d Duration) <-chan Time           { return on.Tick(d) }
func Unix(sec int64, nsec int64) Time       { return time.Unix(sec, nsec) }
func Until(t Time) Duration                 { return on.Until(t) }

// In package time, Interrupt sends a signal that interrupts a sleep. Here no system call sleeps.
func Interrupt() {}

// In package time this is a variable of the runtime. It is false on old versions of Windows.
var haveHighResSleep = true

var testenv skipper

type skipper struct{}

func (skipper) SkipFlaky(t *testing.T, issue int) { t.Skipf("flaky, see issue %d of Go", issue) }
