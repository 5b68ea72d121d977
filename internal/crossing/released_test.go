package crossing

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// Two seconds after its end, or two ticks, the library holds nothing of a timeout, whatever goroutines do meanwhile.

// An ended is some timeouts that have ended, to see which of them are held.
type ended struct {
	name string
	all  []weak.Pointer[session]
}

func (e *ended) held() (n int) {
	for _, p := range e.all {
		if p.Value() != nil {
			n++
		}
	}
	return n
}

// A user uses a timer in a bubble. Its methods keep no timeout.
type user struct {
	t     *testing.T
	timer *hashedwheel.Timer
	tick  time.Duration
}

// arm arms n sessions, mostly for about as long as delay.
func (u user) arm(n int, delay time.Duration) []*session {
	all := make([]*session, n)
	for i := range all {
		s := new(session)
		u.timer.Bind(&s.timeout, s)
		all[i] = s
	}
	u.reset(all, delay)
	return all
}

func (u user) reset(all []*session, delay time.Duration) {
	for i, s := range all {
		if _, err := s.timeout.Reset(delay + time.Duration(i%100)*u.tick); err != nil {
			u.t.Error(err)
		}
	}
}

func (u user) cancel(all []*session) {
	for _, s := range all {
		if !s.timeout.Cancel() {
			u.t.Error("not canceled")
		}
	}
}

func pointers(name string, all []*session) ended {
	e := ended{name: name, all: make([]weak.Pointer[session], len(all))}
	for i, s := range all {
		e.all[i] = weak.Make(s)
	}
	return e
}

// endAll arms timeouts, and ends them in several ways. It returns when all have ended, the last ones a few ticks before.
func (u user) endAll(n int) (all []ended) {
	const far = 10 * time.Hour
	placed, moved := u.arm(n, far), u.arm(n, far)
	testkit.Pass(max(3*time.Second, 3*u.tick))
	add := func(name string, sessions []*session, end func(sessions []*session)) {
		all = append(all, pointers(name, sessions))
		end(sessions)
	}
	add("expired", u.arm(n, 0), func([]*session) { testkit.Pass(102 * u.tick) })
	add("canceled", u.arm(n, far), u.cancel)
	add("put off and canceled", u.arm(n, far), func(s []*session) { u.reset(s, 2*far); u.cancel(s) })
	add("brought forward and canceled", u.arm(n, far), func(s []*session) { u.reset(s, far/2); u.cancel(s) })
	add("brought near and canceled", u.arm(n, far), func(s []*session) { u.reset(s, u.tick); u.cancel(s) })
	add("near and canceled", u.arm(n, u.tick), u.cancel)
	add("canceled twice", u.arm(n, far), func(s []*session) { u.cancel(s); u.reset(s, far); u.cancel(s) })
	add("placed and canceled", placed, u.cancel)
	add("placed, brought forward and canceled", moved, func(s []*session) { u.reset(s, far/2); u.cancel(s) })
	var goroutines, armed sync.WaitGroup
	var mu sync.Mutex
	armed.Add(16)
	for range 16 {
		goroutines.Go(func() {
			s := u.arm(n/4, far)
			mu.Lock()
			all = append(all, pointers("canceled by one of many goroutines", s))
			mu.Unlock()
			armed.Done()
			armed.Wait() // so that all have stacks of their own
			u.cancel(s)
		})
	}
	goroutines.Wait()
	return all
}

// expect lets two seconds pass, or two ticks, and checks that none is held.
func (u user) expect(all []ended) {
	u.t.Helper()
	testkit.Pass(max(2*time.Second, 2*u.tick))
	runtime.GC()
	for _, e := range all {
		assert.Zero(u.t, e.held(), "of %d held: %s", len(e.all), e.name)
	}
}

// producers say what goroutines do while the timeouts end, and afterwards: each of so many arms and cancels some timeouts at
// once, and arms others that stay, and then sleeps.
var producers = []struct {
	name                         string
	goroutines, canceled, remain int
	sleep                        time.Duration
}{
	{"stopped", 0, 0, 0, 0},
	{"slow", 1, 1, 1, 50 * time.Millisecond},
	{"slow on all stripes", 64, 1, 0, 100 * time.Millisecond},
	{"busy on one stripe", 1, 1500, 0, 5 * time.Millisecond},
	{"busy on all stripes", 32, 40, 0, 5 * time.Millisecond},
	{"rising", 4, 10, 20, 5 * time.Millisecond},
}

var heldTicks = []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond}

// produce starts the goroutines of producers. They go on until stop is called.
func (u user) produce(i int) (stop func()) {
	p := producers[i]
	var over atomic.Bool
	var all sync.WaitGroup
	for range p.goroutines {
		all.Go(func() {
			for !over.Load() {
				for n := range p.canceled + p.remain {
					to, err := u.timer.AfterFunc(20*time.Hour, nop)
					if err != nil {
						return
					}
					if n < p.canceled {
						to.Cancel()
					}
				}
				time.Sleep(p.sleep)
			}
		})
	}
	return func() {
		over.Store(true)
		all.Wait()
	}
}

// The ends of endAll, beside all producers, at short and long ticks.
func TestReleasedInTwoSeconds(t *testing.T) {
	n := testkit.Sized(100, 200, 4000)
	for i, p := range producers {
		for j, tick := range heldTicks {
			busy := p.goroutines*p.canceled > 1000
			if less := testkit.Sized(3, 1, 1); (i+j)%less != 0 {
				continue
			}
			if less := testkit.Sized(4, 2, 1); busy && ((i+j)%less != 0 || less > 1 && testkit.RaceDetector()) {
				continue // these take longest
			}
			t.Run(fmt.Sprintf("%s/tick=%v", p.name, tick), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					u := user{t, newTimer(t, hashedwheel.WithTick(tick)), tick}
					time.Sleep(tick / 2)
					defer u.produce(i)()
					u.expect(u.endAll(n))
				})
			})
		}
	}
}
