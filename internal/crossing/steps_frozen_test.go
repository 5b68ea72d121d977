package crossing

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/explore"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// A goroutine freezes before each step of a call for its own timeout, for longer than any scheduler preempts one. Other
// timeouts expire on time meanwhile, Tasks yields them, and Stop returns them. The scenes use public methods alone.

const (
	tick = time.Millisecond
	hour = time.Hour
	soon = 300 * time.Millisecond // the timer may treat timeouts of the next quarter of a second otherwise

	slack = tick / 4 // for waits of a microsecond, see explore.Freeze
)

// A scene is one execution: a timer, the timeout of the goroutine that freezes, and other timeouts.
type scene struct {
	*explore.Victim
	timer  *hashedwheel.Timer
	start  time.Time
	own    *act
	others []*act
}

// An act is a timeout, with what the scene expects of it. Only the goroutine of the scene arms, resets and cancels one of the
// others, so it knows what becomes of each.
type act struct {
	s        *scene
	to       *hashedwheel.Timeout
	armed    int // how often it was accepted
	canceled int // how often Cancel was true
	returned int // how often Stop returned it

	// What is expected of one of the others.
	pending bool
	due     time.Duration
	want    []time.Duration // when it had to run

	mu  sync.Mutex
	ran []time.Duration
}

func (a *act) Run(*hashedwheel.Timeout) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ran = append(a.ran, a.s.now())
}

func (s *scene) now() time.Duration { return time.Since(s.start) }

// expect notes when the timeout is due.
func (a *act) expect(delay time.Duration) {
	a.pending, a.due = true, testkit.Boundary(a.s.now()+max(delay, 1), tick)
}

func (a *act) arm(delay time.Duration) {
	a.expect(delay)
	var err error
	if a.to, err = a.s.timer.NewTimeout(a, delay); err == nil {
		a.armed++
	}
}

func (a *act) reset(delay time.Duration) {
	a.expect(delay)
	if active, err := a.to.Reset(delay); err == nil && !active {
		a.armed++
	}
}

func (a *act) move(delay time.Duration) {
	if a.to.Move(delay) {
		a.expect(delay)
	}
}

func (a *act) cancel() {
	if a.to.Cancel() {
		a.pending = false
		a.canceled++
	}
}

// other arms another timeout.
func (s *scene) other(delay time.Duration) *act {
	a := &act{s: s}
	s.others = append(s.others, a)
	a.arm(delay)
	return a
}

// pass lets time pass, and checks that the others have run when they were due.
func (s *scene) pass(d time.Duration) {
	end := s.now() + d
	for _, a := range s.others {
		if a.pending && a.due <= end {
			a.pending, a.want = false, append(a.want, a.due)
		}
	}
	testkit.Pass(d)
	for i, a := range s.others {
		require.Len(s, a.ran, len(a.want), "other %d ran at %v, want %v", i, a.ran, a.want)
		for k, at := range a.ran {
			require.True(s, a.want[k] <= at && at <= a.want[k]+slack, "other %d ran at %v, want %v", i, a.ran, a.want)
		}
	}
}

// walk checks that Tasks yields each of the others that is pending, at its boundary, and no other.
func (s *scene) walk() {
	found := make(map[*act]int)
	for task, at := range s.timer.Tasks() {
		a := task.(*act)
		if found[a]++; a != s.own {
			require.Equal(s, a.due, at.Sub(s.start), "other %d", slices.Index(s.others, a))
		}
	}
	for i, a := range s.others {
		require.Equal(s, a.pending, found[a] == 1, "Tasks yields other %d %d times, pending %v", i, found[a], a.pending)
	}
	require.LessOrEqual(s, found[s.own], 1)
}

// use arms, resets and cancels others, near and far, and checks that all goes as if nobody were frozen.
func (s *scene) use() {
	s.walk()
	before := len(s.others)
	s.other(0)
	s.other(hour)
	s.other(2*tick + tick/4)
	s.other(soon)
	for i, a := range s.others[:before] {
		switch i % 4 {
		case 0:
			a.reset(0)
		case 1:
			a.cancel()
			a.reset(soon)
		case 2:
			a.reset(hour)
			a.cancel()
			a.reset(tick)
		}
	}
	s.walk()
	s.pass(4 * tick)
	s.walk()
	s.pass(soon)
	s.walk()
}

// stop stops the timer while a goroutine is frozen. Stop may wait for the goroutine, but loses none of the others.
func (s *scene) stop() {
	var left []*hashedwheel.Timeout
	done := make(chan struct{})
	go func() {
		left = s.timer.Stop()
		close(done)
	}()
	time.Sleep(slack)
	for s.Frozen() {
		s.Next()
	}
	<-done
	for _, to := range left {
		to.Task().(*act).returned++
	}
	for i, a := range s.others {
		want := 0
		if a.pending {
			want = 1
		}
		require.Equal(s, want, a.returned, "how often Stop has returned other %d", i)
		a.pending = false
	}
	s.pass(2 * hour)
}

// end checks at the end that each arming has ended once.
func (s *scene) end() {
	for s.Frozen() {
		s.Next()
	}
	s.pass(3 * hour)
	for i, a := range append(s.others, s.own) {
		if a.returned > 0 && !a.to.Cancel() {
			a.canceled-- // it has canceled what Stop had returned
		}
		require.Equal(s, a.armed, len(a.ran)+a.canceled+a.returned, "number %d of %d and one: ran at %v, canceled %d times, returned %d times",
			i, len(s.others), a.ran, a.canceled, a.returned)
	}
	st := s.timer.Stats()
	require.Zero(s, st.Pending)
	require.Equal(s, st.Accepted, st.Expired+st.Canceled+st.Returned, "%+v", st)
}

// young arms the own timeout for an hour, and placed lets time pass then, so that it is wherever the timer keeps it.
func (s *scene) young() { s.own.arm(hour) }

func (s *scene) placed() {
	s.own.arm(hour)
	s.pass(time.Second)
}

// calls are what the goroutine does, and what was done before with its timeout.
var calls = []struct {
	name    string
	prepare func(s *scene)
	call    func(a *act)
}{
	{"NewTimeout near", nil, func(a *act) { a.arm(0) }},
	{"NewTimeout in ticks", nil, func(a *act) { a.arm(3 * tick) }},
	{"NewTimeout far", nil, func(a *act) { a.arm(hour) }},
	{"NewTimeout far and Cancel", nil, func(a *act) {
		if a.arm(hour); a.to != nil { // otherwise the timer is stopped
			a.cancel()
		}
	}},
	{"Cancel of a new one", (*scene).young, (*act).cancel},
	{"Cancel of a near one", func(s *scene) { s.own.arm(2 * tick) }, (*act).cancel},
	{"Cancel of a placed one", (*scene).placed, (*act).cancel},
	{"Cancel after Reset", func(s *scene) { s.young(); s.own.reset(2 * hour) }, (*act).cancel},
	{"Reset of a new one to near", (*scene).young, func(a *act) { a.reset(0) }},
	{"Reset of a new one to earlier", (*scene).young, func(a *act) { a.reset(hour / 2) }},
	{"Reset of a new one to earlier and Cancel", (*scene).young, func(a *act) { a.reset(hour / 2); a.cancel() }},
	{"Reset of a placed one to near", (*scene).placed, func(a *act) { a.reset(0) }},
	{"Reset of a placed one to earlier", (*scene).placed, func(a *act) { a.reset(hour / 2) }},
	{"Reset of a placed one to later", (*scene).placed, func(a *act) { a.reset(2 * hour) }},
	{"Reset of a canceled one", func(s *scene) { s.young(); s.own.cancel() }, func(a *act) { a.reset(hour) }},
	{"Reset of a canceled one to near", func(s *scene) { s.placed(); s.own.cancel() }, func(a *act) { a.reset(tick) }},
	{"Reset of an expired one", func(s *scene) { s.own.arm(0); s.pass(time.Second) }, func(a *act) { a.reset(tick) }},
	{"Move of a new one", (*scene).young, func(a *act) { a.move(tick) }},
	{"Move of a placed one", (*scene).placed, func(a *act) { a.move(tick) }},
}

// besides are which others there are when the goroutine makes its call. It comes upon them in what it shares with them.
var besides = []struct {
	name string
	f    func(s *scene)
}{
	{"none", func(*scene) {}},
	{"one", func(s *scene) { s.other(hour) }},
	{"four", func(s *scene) { s.far(4) }},
	{"nine", func(s *scene) { s.far(9) }},
	{"canceled ones", func(s *scene) {
		for _, a := range s.far(5) {
			a.cancel()
		}
	}},
	{"ones reset and canceled", func(s *scene) {
		for _, a := range s.far(5) {
			a.reset(hour / 2)
			a.cancel()
		}
	}},
	{"near and far ones", func(s *scene) {
		for i := range 6 {
			s.other(tick * time.Duration(1+i%3))
			a := s.other(soon)
			if i%2 == 0 {
				a.cancel()
			}
		}
	}},
	{"ones placed and canceled", func(s *scene) {
		all := s.far(6)
		s.pass(time.Second)
		for _, a := range all[:4] {
			a.cancel()
		}
	}},
}

// far arms others for about an hour.
func (s *scene) far(n int) []*act {
	for i := range n {
		s.other(hour + time.Duration(i)*tick)
	}
	return s.others[len(s.others)-n:]
}

// freeze runs calls beside others, by default as many as its share of time allows and in full all, and while the goroutine is
// frozen it calls meanwhile. Stops and most are as in explore.Freeze.
func freeze(t *testing.T, stops, most int, meanwhile func(s *scene)) {
	pairs := testkit.Rand(t).Perm(len(besides) * len(calls))
	for n := range testkit.NewShare(t).Rounds(10, len(pairs)) {
		beside, call := besides[pairs[n]%len(besides)], calls[pairs[n]/len(besides)]
		t.Run(fmt.Sprintf("%s beside %s", call.name, beside.name), func(t *testing.T) {
			explore.Freeze(t, stops, most, func(v *explore.Victim) {
				start := time.Now()
				timer, err := hashedwheel.New(hashedwheel.WithTick(tick), hashedwheel.WithWheelSize(4))
				require.NoError(v, err)
				v.Cleanup(func() { timer.Stop() })
				s := &scene{Victim: v, timer: timer, start: start}
				s.own = &act{s: s}
				s.pass(tick / 2)
				if call.prepare != nil {
					call.prepare(s)
				}
				beside.f(s)
				v.Go(func() { call.call(s.own) })
				meanwhile(s)
				s.end()
			})
		})
	}
}

var scenarios = explore.Scenarios{
	"Frozen":     func(t *testing.T) { freeze(t, 1, 0, (*scene).use) },
	"FrozenStop": func(t *testing.T) { freeze(t, 1, 0, (*scene).stop) },
	// The goroutine freezes twice, and comes upon what the others have done the first time.
	"FrozenTwice": func(t *testing.T) {
		freeze(t, 2, testkit.Sized(30, 30, 0), func(s *scene) {
			s.use()
			s.Next()
			s.use()
		})
	},
}
