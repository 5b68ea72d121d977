package designs

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/explore"
	"github.com/hashedwheel/hashedwheel/internal/seat"
)

type timer interface {
	After(d time.Duration, f func()) any
	Cancel(h any) bool
	Reset(h any, d time.Duration, f func()) any
}

// A wheel is a timer of this library.
type wheel struct{ *hashedwheel.Timer }

func (w wheel) After(d time.Duration, f func()) any { to, _ := w.AfterFunc(d, f); return to }
func (w wheel) Cancel(h any) bool                   { return h.(*hashedwheel.Timeout).Cancel() }
func (w wheel) Reset(h any, d time.Duration, _ func()) any {
	h.(*hashedwheel.Timeout).Reset(d)
	return h
}

// newTimer returns a timer whose worker does not run before the next boundary, or never.
func newTimer(t *testing.T, name string) timer {
	switch name {
	case "netty design":
		netty := &explore.Lines(make([]Netty, 1))[0]
		netty.queue.init(0)
		netty.canceled.init(1)
		return netty
	case "heap design":
		return &explore.Lines([]Heap{{earlier: make(chan struct{}, 1), heap: explore.Lines(make([]*heapEntry, 1024))[:0]}})[0]
	}
	limits := map[string]int{"hashedwheel, limit": 1 << 20}
	library, _ := hashedwheel.New(hashedwheel.WithMaxPending(limits[name]))
	t.Cleanup(func() { library.Stop() })
	library.AfterFunc(0, func() {})
	synctest.Wait()
	return wheel{library}
}

// measure returns the moves for each operation in the first 10 of each goroutine, and after 50: the averages of two machines.
func measure(t *testing.T, name, row string, processors int, migration int) (first, settled float64) {
	for seed := range uint64(2) {
		synctest.Test(t, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			clear(seat.All[:]) // no goroutine has moved yet
			timer := newTimer(t, name)
			r := rand.New(rand.NewPCG(seed, 1))
			m := explore.NewMachine(processors, migration, r)
			delay := func() time.Duration { return time.Hour + time.Duration(r.Int64N(int64(time.Hour))) }
			kept := make([]any, processors) // by goroutine, the last that it has armed if it keeps any
			arm := func(i int) { kept[i] = timer.After(delay(), func() {}) }
			m.Run(1, arm)
			op := map[string]func(i int){
				"arm and cancel":           func(int) { timer.Cancel(timer.After(delay(), func() {})) },
				"arm, and another cancels": func(i int) { arm(i); timer.Cancel(kept[(i+1)%processors]) },
				"reset and cancel, kept":   func(i int) { kept[i] = timer.Reset(kept[i], delay(), func() {}); timer.Cancel(kept[i]) },
				"arm, reset to earlier, cancel": func(int) {
					timer.Cancel(timer.Reset(timer.After(3*time.Hour, func() {}), delay(), func() {}))
				},
				"reset": func(i int) { kept[i] = timer.Reset(kept[i], delay(), func() {}) },
			}[row]
			first += m.Run(10, op) / 2
			m.Run(40, op)
			settled += m.Run(30, op) / 2
		})
	}
	return first, settled
}

// TestLines prints the rows of lines.md.
func TestLines(t *testing.T) {
	for _, name := range []string{"hashedwheel", "hashedwheel, limit", "netty design", "heap design"} {
		for _, row := range []string{"arm and cancel", "arm, and another cancels", "arm, reset to earlier, cancel", "reset and cancel, kept", "reset"} {
			fmt.Printf("| %s | %s", name, row)
			var first, settled float64
			for _, processors := range []int{1, 2, 8, 32, 128} {
				first, settled = measure(t, name, row, processors, 0)
				fmt.Printf(" | %.1f", settled)
			}
			if name == "hashedwheel" && row == "arm and cancel" && settled > 0.1 {
				t.Errorf("%.3f moves for each arm and cancel of goroutines that have settled", settled)
			}
			_, migrating := measure(t, name, row, 128, 1)
			fmt.Printf(" | %.1f | %.1f |\n", first, migrating)
		}
	}
}
