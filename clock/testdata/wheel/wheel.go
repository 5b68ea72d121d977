// Package wheel has the timers of package time on a wheel.
package wheel

import (
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
)

type (
	Timer  = clock.Timer
	Ticker = clock.Ticker
)

var on = newClock()

func newClock() *clock.Clock {
	timer, err := hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond))
	if err != nil {
		panic(err)
	}
	return clock.New(timer)
}

func NewTimer(d time.Duration) *Timer            { return on.NewTimer(d) }
func NewTicker(d time.Duration) *Ticker          { return on.NewTicker(d) }
func AfterFunc(d time.Duration, f func()) *Timer { return on.AfterFunc(d, f) }
func After(d time.Duration) <-chan time.Time     { return on.After(d) }
func Tick(d time.Duration) <-chan time.Time      { return on.Tick(d) }
func Sleep(d time.Duration)                      { on.Sleep(d) }
