package crossing

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/hashedwheel/hashedwheel/idle"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
	"github.com/hashedwheel/hashedwheel/keyed"
	"github.com/hashedwheel/hashedwheel/wheeldebug"
)

// bubbleTick is the tick of the timers in these tests.
const bubbleTick = time.Millisecond

// A notice is a task that is notified when its timeout is canceled.
type notice struct{ canceled chan struct{} }

func (n *notice) Run(*hashedwheel.Timeout)      {}
func (n *notice) Canceled(*hashedwheel.Timeout) { n.canceled <- struct{}{} }

// A side has one of everything, made in a bubble or outside of bubbles, to be used on the other side.
type side struct {
	timer    *hashedwheel.Timer
	plain    *hashedwheel.Timeout // pending
	repeats  *hashedwheel.Timeout // pending
	notice   *notice
	notified *hashedwheel.Timeout // pending, with a Canceler
	running  *hashedwheel.Timeout // its task blocks until release is closed
	release  chan struct{}
	embedded hashedwheel.Timeout // idle
	soon     time.Time           // a deadline, an hour from then

	group, noticeGroup *hashedwheel.Group // each with a pending member
	keys               *keyed.Map[string, int]

	clock  *clock.Clock
	alarm  *clock.Timer
	ticker *clock.Ticker

	limit *idle.Limit
	conn  *idle.Conn
}

// A sink is a connection to nowhere.
type sink struct {
	net.Conn
	closed bool
}

func (*sink) Read(b []byte) (int, error)  { return len(b), nil }
func (*sink) Write(b []byte) (int, error) { return len(b), nil }
func (k *sink) Close() error              { k.closed = true; return nil }

func (*sink) SetDeadline(time.Time) error      { return nil }
func (*sink) SetReadDeadline(time.Time) error  { return nil }
func (*sink) SetWriteDeadline(time.Time) error { return nil }

func newSide(t *testing.T) *side {
	timer, err := hashedwheel.New(hashedwheel.WithTick(bubbleTick))
	require.NoError(t, err)
	s := &side{
		timer: timer, notice: &notice{make(chan struct{}, 10)}, release: make(chan struct{}),
		soon:  time.Now().Add(time.Hour),
		group: hashedwheel.NewGroup(timer), noticeGroup: hashedwheel.NewGroup(timer),
		keys: keyed.New(timer, func(string, int) {}), clock: clock.New(timer),
	}
	timer.Bind(&s.embedded, hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {}))
	s.plain = armed(t)(timer.AfterFunc(time.Hour, func() {}))
	s.repeats = armed(t)(timer.Schedule(s.embedded.Task(), hashedwheel.Every(time.Hour)))
	s.notified = armed(t)(timer.NewTimeout(s.notice, time.Hour))
	armed(t)(s.group.AfterFunc(time.Hour, func() {}))
	armed(t)(s.noticeGroup.NewTimeout(s.notice, time.Hour))
	require.NoError(t, s.keys.Set("key", 1, time.Hour))
	s.alarm, s.ticker = s.clock.NewTimer(time.Hour), s.clock.NewTicker(time.Hour)
	s.limit, err = idle.New(timer, time.Hour)
	require.NoError(t, err)
	s.conn, err = s.limit.Conn(&sink{})
	require.NoError(t, err)
	started := make(chan struct{})
	s.running = armed(t)(timer.AfterFunc(0, func() { close(started); <-s.release }))
	<-started
	return s
}

// armed returns a function that returns a timeout that has been armed without an error.
func armed(t *testing.T) func(*hashedwheel.Timeout, error) *hashedwheel.Timeout {
	return func(to *hashedwheel.Timeout, err error) *hashedwheel.Timeout {
		require.NoError(t, err)
		return to
	}
}

// end uses everything once more where it was made. So what a call on the other side has broken is found.
func (s *side) end(t *testing.T) {
	time.Sleep(3 * bubbleTick)
	armed(t)(s.timer.NewTimeout(s.notice, time.Hour)).Cancel()
	<-s.notice.canceled
	if _, err := s.noticeGroup.AfterFunc(time.Hour, func() {}); err != nil { // Close may have panicked after it has closed the group
		require.ErrorIs(t, err, hashedwheel.ErrGroupClosed)
		s.noticeGroup.Close() // cancels what Close has not canceled
	}
	fired := make(chan struct{})
	armed(t)(s.timer.AfterFunc(0, func() { close(fired) }))
	<-fired
	s.alarm.Reset(0)
	<-s.alarm.C
	s.alarm.Stop()
	s.ticker.Reset(time.Hour)
	s.ticker.Stop()
	_, err := s.embedded.Reset(time.Hour)
	require.NoError(t, err)
	require.NoError(t, s.keys.Set("key", 2, time.Hour))
	close(s.release)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, s.running.WaitRunning(ctx))
	require.True(t, s.running.IsExpired())
	_, err = s.timer.Shutdown(ctx)
	require.NoError(t, err)
	require.Zero(t, s.timer.Pending())
	require.NoError(t, s.conn.Close())
}

// What a call does on the other side of a bubble.
const (
	works = iota
	panics
	cancels // panics if the timeout is in a bucket and the worker rests, and works otherwise
)

// TestBothSidesOfABubble calls each method of everything that was made outside of bubbles in a bubble, and the reverse.
// It works, or panics at once. In both cases everything goes on to work where it was made, and the counts agree.
func TestBothSidesOfABubble(t *testing.T) {
	t.Parallel() // it mostly waits
	task := hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {})
	methods := methodsOf(&side{})
	done, cancel := context.WithCancel(context.Background())
	cancel()
	var all sync.WaitGroup
	for i, c := range []struct {
		name            string
		inside, outside int // what was made outside of bubbles does inside one, and the reverse
		call            func(s *side)
	}{
		{"Timer.NewTimeout", panics, panics, func(s *side) { s.timer.NewTimeout(task, time.Hour) }},
		{"Timer.AfterFunc", panics, panics, func(s *side) { s.timer.AfterFunc(0, func() {}) }},
		{"Timer.AfterFuncAt", panics, panics, func(s *side) { s.timer.AfterFuncAt(time.Now().Add(time.Hour), func() {}) }},
		{"Timer.NewTimeoutAt/here", panics, panics, func(s *side) { s.timer.NewTimeoutAt(task, time.Now().Add(time.Hour)) }},
		{"Timer.NewTimeoutAt/passed", panics, panics, func(s *side) { s.timer.NewTimeoutAt(task, s.soon.Add(-2*time.Hour)) }},
		{"Timer.NewTimeoutAt/wall clock", panics, panics, func(s *side) { s.timer.NewTimeoutAt(task, s.soon.Round(0)) }},
		{"Timer.ScheduleAtFixedRate", panics, panics, func(s *side) { s.timer.ScheduleAtFixedRate(task, time.Hour, time.Hour) }},
		{"Timer.ScheduleWithFixedDelay", panics, panics, func(s *side) { s.timer.ScheduleWithFixedDelay(task, time.Hour, time.Hour) }},
		{"Timer.Schedule", panics, panics, func(s *side) { s.timer.Schedule(task, hashedwheel.Every(time.Hour)) }},
		{"Timer.Sleep", panics, panics, func(s *side) { s.timer.Sleep(context.Background(), time.Hour) }},
		{"Timer.Bind", works, works, func(s *side) { s.timer.Bind(new(hashedwheel.Timeout), task) }},
		{"Timer.Stop", panics, panics, func(s *side) { s.timer.Stop() }},
		{"Timer.Shutdown", panics, panics, func(s *side) { s.timer.Shutdown(done) }},
		{"Timer.Stats", works, works, func(s *side) { s.timer.Stats() }},
		{"Timer.Pending", works, works, func(s *side) { s.timer.Pending() }},
		{"Timer.Tasks", works, works, func(s *side) {
			for range s.timer.Tasks() {
			}
		}},
		{"Timer.Tick", works, works, func(s *side) { s.timer.Tick() }},
		{"Timer.Name", works, works, func(s *side) { s.timer.Name() }},
		{"Timer.String", works, works, func(s *side) { _ = s.timer.String() }},
		{"Timer.IsStopped", works, works, func(s *side) { s.timer.IsStopped() }},

		{"Timeout.Cancel", cancels, cancels, func(s *side) { mustBe(s.plain.Cancel()) }},
		{"Timeout.Cancel/again", cancels, cancels, func(s *side) { mustBe(s.plain.Cancel() && !s.plain.Cancel()) }},
		{"Timeout.Cancel/repeating", cancels, cancels, func(s *side) { mustBe(s.repeats.Cancel()) }},
		{"Timeout.Cancel/Canceler", panics, panics, func(s *side) { s.notified.Cancel() }},
		{"Timeout.Cancel/running", works, works, func(s *side) { mustBe(!s.running.Cancel()) }},
		{"Timeout.Reset", panics, panics, func(s *side) { s.embedded.Reset(time.Hour) }},
		{"Timeout.Reset/pending", panics, panics, func(s *side) { s.plain.Reset(time.Hour) }},
		{"Timeout.Reset/running", panics, panics, func(s *side) { s.running.Reset(time.Hour) }},
		{"Timeout.ResetAt/here", panics, panics, func(s *side) { s.embedded.ResetAt(time.Now().Add(time.Hour)) }},
		{"Timeout.ResetAt/passed", panics, panics, func(s *side) { s.embedded.ResetAt(s.soon.Add(-2 * time.Hour)) }},
		{"Timeout.Move", panics, panics, func(s *side) { s.plain.Move(time.Hour) }},
		{"Timeout.Move/running", works, works, func(s *side) { mustBe(!s.running.Move(time.Hour)) }},
		{"Timeout.WaitRunning", panics, panics, func(s *side) { s.running.WaitRunning(done) }},
		{"Timeout.WaitRunning/pending", panics, panics, func(s *side) { s.plain.WaitRunning(done) }},
		{"Timeout.WaitRunning/idle", works, works, func(s *side) { s.embedded.WaitRunning(done) }},
		{"Timeout.Deadline", works, works, func(s *side) { s.plain.Deadline(); s.running.Deadline() }},
		{"Timeout.String", works, works, func(s *side) { mustBe(s.plain.String() != s.running.String()) }},
		{"Timeout.IsPending", works, works, func(s *side) { mustBe(s.plain.IsPending() && !s.running.IsPending()) }},
		{"Timeout.IsExpired", works, works, func(s *side) { mustBe(s.running.IsExpired()) }},
		{"Timeout.IsCanceled", works, works, func(s *side) { mustBe(!s.running.IsCanceled()) }},
		{"Timeout.Task", works, works, func(s *side) { mustBe(s.plain.Task() != nil) }},
		{"Timeout.Timer", works, works, func(s *side) { mustBe(s.plain.Timer() == s.timer) }},

		{"NewGroup", works, works, func(s *side) { hashedwheel.NewGroup(s.timer) }},
		{"Group.NewTimeout", panics, panics, func(s *side) { s.group.NewTimeout(task, time.Hour) }},
		{"Group.AfterFunc", panics, panics, func(s *side) { s.group.AfterFunc(time.Hour, func() {}) }},
		{"Group.Schedule", panics, panics, func(s *side) { s.group.Schedule(task, hashedwheel.Every(time.Hour)) }},
		{"Group.Len", works, works, func(s *side) { mustBe(s.group.Len() == 1) }},
		{"Group.Cancel", cancels, cancels, func(s *side) { mustBe(s.group.Cancel() == 1) }},
		{"Group.Cancel/Canceler", panics, panics, func(s *side) { s.noticeGroup.Cancel() }},
		{"Group.WaitRunning", panics, panics, func(s *side) { s.group.WaitRunning(done) }},
		{"Group.Close", cancels, cancels, func(s *side) { mustBe(s.group.Close() == 1) }},
		{"Group.Close/Canceler", panics, panics, func(s *side) { s.noticeGroup.Close() }},

		{"keyed.New", works, works, func(s *side) { keyed.New[int, int](s.timer, nil) }},
		{"Map.Set", panics, panics, func(s *side) { s.keys.Set("key", 2, time.Hour) }},
		{"Map.Set/new", panics, panics, func(s *side) { s.keys.Set("new", 2, time.Hour) }},
		{"Map.GetOrSet", works, works, func(s *side) { s.keys.GetOrSet("key", 2, time.Hour) }},
		{"Map.GetOrSet/new", panics, panics, func(s *side) { s.keys.GetOrSet("new", 2, time.Hour) }},
		{"Map.Touch", panics, panics, func(s *side) { s.keys.Touch("key", time.Hour) }},
		{"Map.Touch/none", works, works, func(s *side) { s.keys.Touch("new", time.Hour) }},
		{"Map.SetAt", panics, panics, func(s *side) { s.keys.SetAt("key", 2, time.Now().Add(time.Hour)) }},
		{"Map.SetAt/new", panics, panics, func(s *side) { s.keys.SetAt("new", 2, time.Now().Add(time.Hour)) }},
		{"Map.TouchAt", panics, panics, func(s *side) { s.keys.TouchAt("key", s.soon.Add(time.Hour)) }},
		{"Map.TouchAt/here", panics, panics, func(s *side) { s.keys.TouchAt("key", time.Now().Add(time.Hour)) }},
		{"Map.TouchAt/none", works, works, func(s *side) { s.keys.TouchAt("new", time.Now().Add(time.Hour)) }},
		{"Map.TouchIf", panics, panics, func(s *side) {
			s.keys.TouchIf("key", time.Hour, func(int, time.Time) bool { panic("f was called") })
		}},
		{"Map.Close", panics, panics, func(s *side) { s.keys.Close() }},
		{"Map.WaitRunning", panics, panics, func(s *side) { s.keys.WaitRunning(done) }},
		{"Map.Get", works, works, func(s *side) { s.keys.Get("key") }},
		{"Map.Deadline", works, works, func(s *side) { s.keys.Deadline("key") }},
		{"Map.Update", panics, panics, func(s *side) { s.keys.Update("key", func(int) int { panic("f was called") }) }},
		{"Map.Update/none", panics, panics, func(s *side) { s.keys.Update("new", func(v int) int { return v }) }},
		{"Map.Remove", panics, panics, func(s *side) { s.keys.Remove("key") }},
		{"Map.RemoveIf", panics, panics, func(s *side) { s.keys.RemoveIf("key", func(int) bool { panic("f was called") }) }},
		{"Map.Clear", panics, panics, func(s *side) { s.keys.Clear() }},
		{"Map.Len", works, works, func(s *side) { mustBe(s.keys.Len() == 1) }},
		{"Map.All", works, works, func(s *side) {
			for key := range s.keys.All() {
				mustBe(key == "key")
			}
		}},

		{"wheeldebug.Handler", works, works, func(s *side) {
			w := httptest.NewRecorder()
			wheeldebug.Handler(s.timer).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			mustBe(w.Code == http.StatusOK)
		}},

		// A Clock made outside uses package time in a bubble.
		{"clock.New", works, works, func(s *side) { clock.New(s.timer) }},
		{"Clock.NewTimer", works, panics, func(s *side) { s.clock.NewTimer(time.Hour).Stop() }},
		{"Clock.AfterFunc", works, panics, func(s *side) { s.clock.AfterFunc(0, func() {}).Stop() }},
		{"Clock.NewTicker", works, panics, func(s *side) { s.clock.NewTicker(time.Hour).Stop() }},
		{"Clock.After", works, panics, func(s *side) { <-s.clock.After(bubbleTick) }},
		{"Clock.Tick", works, panics, func(s *side) { <-s.clock.Tick(bubbleTick) }},
		{"Clock.Sleep", works, panics, func(s *side) { s.clock.Sleep(bubbleTick) }},
		{"Clock.Now", works, works, func(s *side) { s.clock.Now() }},
		{"Clock.Since", works, works, func(s *side) { s.clock.Since(time.Now()) }},
		{"Clock.Until", works, works, func(s *side) { s.clock.Until(time.Now()) }},
		{"clock.Timer.Stop", cancels, panics, func(s *side) { s.alarm.Stop() }},
		{"clock.Timer.Reset", panics, panics, func(s *side) { s.alarm.Reset(time.Hour) }},
		{"Ticker.Stop", cancels, panics, func(s *side) { s.ticker.Stop() }},
		{"Ticker.Reset", panics, panics, func(s *side) { s.ticker.Reset(time.Hour) }},

		{"idle.New", works, works, func(s *side) { idle.New(s.timer, time.Hour, idle.WithReadsOnly()) }},
		{"Limit.Conn", panics, panics, func(s *side) { s.limit.Conn(&sink{}) }},
		{"Limit.Listener", works, works, func(s *side) { s.limit.Listener(new(net.TCPListener)) }},
		{"Limit.NumClosed", works, works, func(s *side) { mustBe(s.limit.NumClosed() == 0) }},
		{"Limit.NumRefused", works, works, func(s *side) { mustBe(s.limit.NumRefused() == 0) }},
		{"Conn.Read", panics, panics, func(s *side) { s.conn.Read([]byte{1}) }},
		{"Conn.Write", panics, panics, func(s *side) { s.conn.Write([]byte{1}) }},
		{"Conn.ReadFrom", panics, panics, func(s *side) { s.conn.ReadFrom(strings.NewReader("data")) }},
		{"Conn.CloseRead", works, works, func(s *side) { s.conn.CloseRead() }},
		{"Conn.CloseWrite", works, works, func(s *side) { s.conn.CloseWrite() }},
		{"Conn.SetSilence", panics, panics, func(s *side) { s.conn.SetSilence(time.Minute) }},
		{"Conn.SetDeadline", works, works, func(s *side) { s.conn.SetDeadline(s.soon) }},
		{"Conn.SetReadDeadline", works, works, func(s *side) { s.conn.SetReadDeadline(s.soon) }},
		{"Conn.SetWriteDeadline", works, works, func(s *side) { s.conn.SetWriteDeadline(s.soon) }},
		{"Conn.NetConn", works, works, func(s *side) { s.conn.NetConn() }},
		{"Conn.Close", cancels, cancels, func(s *side) {
			defer func() { mustBe(s.conn.NetConn().(*sink).closed) }()
			s.conn.Close()
		}},
	} {
		name, _, _ := strings.Cut(c.name, "/")
		delete(methods, name)
		check := func(t *testing.T, s *side, want int, value any) {
			t.Helper()
			if want == works {
				require.Nil(t, value)
			} else {
				require.Regexp(t, wrongSide, value)
			}
			testkit.CheckCounts(t, s.timer.Stats())
		}
		for _, pause := range []time.Duration{
			time.Duration(i%2) * 3 * bubbleTick, // the worker is awake, or rests
			2 * time.Second,                     // it rests, and all is in buckets
		} {
			all.Go(func() { // all at once, because each mostly waits: with t.Parallel, few run at a time
				t.Run(fmt.Sprintf("made outside/%v/%s", pause, c.name), func(t *testing.T) {
					if pause >= time.Second && testing.Short() && !testkit.Full() {
						t.Skip("waits for two seconds: runs without -short")
					}
					s := newSide(t)
					defer s.end(t)
					time.Sleep(pause)
					synctest.Test(t, func(t *testing.T) {
						want, value := c.inside, recovered(s, c.call)
						if want == cancels && value == nil { // on a busy machine, not all is in buckets
							want = works
						}
						check(t, s, want, value)
					})
				})
			})
			t.Run(fmt.Sprintf("made inside/%v/%s", pause, c.name), func(t *testing.T) {
				sides, values := make(chan *side), make(chan any)
				go func() {
					for s := range sides {
						values <- recovered(s, c.call)
					}
				}()
				defer close(sides)
				synctest.Test(t, func(t *testing.T) {
					s := newSide(t)
					time.Sleep(pause)
					sides <- s
					want := c.outside
					if want == cancels && pause < time.Second {
						want = works
					}
					check(t, s, want, <-values)
					s.end(t)
				})
			})
		}
	}
	all.Wait()
	require.Empty(t, methods, "methods that are not tested")
}

// methodsOf returns the names of the methods of the types that a side is made of.
func methodsOf(s *side) map[string]bool {
	names := map[string]bool{}
	for name, value := range map[string]any{
		"Timer": s.timer, "Timeout": s.plain, "Group": s.group, "Map": s.keys,
		"Clock": s.clock, "clock.Timer": s.alarm, "Ticker": s.ticker, "Limit": s.limit, "Conn": s.conn,
	} {
		for typ, i := reflect.TypeOf(value), 0; i < typ.NumMethod(); i++ {
			names[name+"."+typ.Method(i).Name] = true
		}
	}
	delete(names, "Conn.LocalAddr") // of the wrapped connection
	delete(names, "Conn.RemoteAddr")
	return names
}

var wrongSide = regexp.MustCompile(`^(hashedwheel|clock): an? .* (` +
	`made outside of a testing/synctest bubble is used inside one: make it inside the bubble|` +
	`made in a testing/synctest bubble is used outside of it)$`)

// recovered calls f and returns the value of its panic, or nil.
func recovered(s *side, f func(s *side)) (value any) {
	defer func() { value = recover() }()
	f(s)
	return nil
}

func mustBe(ok bool) {
	if !ok {
		panic("wrong result")
	}
}

// A timeout in a bucket, or on the list of a pool, is canceled from the other side of a bubble. Cancel panics, because the worker
// rests and cannot be woken from there. The timeout has been canceled, and a Reset on the right side is on time.
func TestResetAfterForeignCancel(t *testing.T) {
	for _, c := range []struct {
		due   bool // it waits for the limit of running tasks
		limit int  // of pending timeouts
	}{{}, {due: true}, {limit: 10}, {due: true, limit: 10}} {
		var to *hashedwheel.Timeout
		ask, done := make(chan bool), make(chan bool)
		go func() { // outside of the bubble
			<-ask
			assert.Regexp(t, wrongSide, recovered(nil, func(*side) { to.Cancel() }))
			assert.True(t, to.IsCanceled())
			close(done)
		}()
		synctest.Test(t, func(t *testing.T) {
			timer, err := hashedwheel.New(hashedwheel.WithTick(bubbleTick), hashedwheel.WithMaxConcurrency(1),
				hashedwheel.WithMaxPending(c.limit))
			require.NoError(t, err)
			defer timer.Shutdown(t.Context())
			fired, release := make(chan time.Time, 1), make(chan bool)
			delay := time.Hour
			if c.due {
				armed(t)(timer.AfterFunc(0, func() { <-release }))
				delay = 2 * bubbleTick // after the other, at whose tick the order is open
			}
			to = armed(t)(timer.AfterFunc(delay, func() { fired <- time.Now() }))
			testkit.Pass(time.Second)
			close(ask)
			<-done
			start := time.Now()
			active, err := to.Reset(5 * bubbleTick)
			require.NoError(t, err)
			require.False(t, active)
			close(release)
			require.Equal(t, 5*bubbleTick, (<-fired).Sub(start).Truncate(bubbleTick))
		})
	}
}

// A timeout is canceled from the other side of a bubble while the worker goes to rest. Whether Cancel works or panics, a Reset on
// the right side is on time.
func TestForeignCancelRace(t *testing.T) {
	testkit.NeedsThreads(t)
	const n = 2000
	var to atomic.Pointer[hashedwheel.Timeout]
	var calls atomic.Int64 // that are over
	go func() {            // outside of the bubble
		for range n {
			for to.Load() == nil {
				runtime.Gosched()
			}
			recovered(nil, func(*side) { to.Swap(nil).Cancel() })
			calls.Add(1)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		timer, err := hashedwheel.New(hashedwheel.WithTick(bubbleTick))
		require.NoError(t, err)
		defer timer.Stop()
		for i := range n {
			fired := make(chan time.Duration, 1)
			start := time.Now()
			timeout := armed(t)(timer.AfterFunc(time.Hour, func() { fired <- time.Since(start) }))
			testkit.Pass(time.Second) // the timeout is in a bucket
			if i%2 == 0 {             // the worker does not rest yet
				armed(t)(timer.AfterFunc(0, func() {}))
				testkit.Pass(bubbleTick)
			}
			reset := time.Since(start)
			to.Store(timeout)
			for calls.Load() <= int64(i) {
				runtime.Gosched()
			}
			_, err := timeout.Reset(5 * bubbleTick)
			require.NoError(t, err)
			require.LessOrEqual(t, <-fired, reset+6*bubbleTick)
		}
	})
}

// A timer and a deadline from outside are used in a bubble. No call needs the clock, but each may have to wake the timer. So
// it works, or it panics and says why, and in both cases everything goes on to work outside.
func TestForeignDeadline(t *testing.T) {
	n := testkit.Sized(500, 2000, 2000)
	task := hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {})
	timer, err := hashedwheel.New(hashedwheel.WithTick(bubbleTick), hashedwheel.WithMaxPending(2*n+1))
	require.NoError(t, err)
	repeats := armed(t)(timer.Schedule(task, hashedwheel.Every(bubbleTick)))
	time.Sleep(5 * bubbleTick) // in real time, so that the worker comes at each tick
	deadline := time.Now().Add(time.Hour)
	all := make([]hashedwheel.Timeout, n)
	worked := 0
	synctest.Test(t, func(t *testing.T) {
		for i := range all {
			timer.Bind(&all[i], task)
			for _, call := range []func(){
				func() { timer.NewTimeoutAt(task, deadline) },
				func() { all[i].ResetAt(deadline) },
				func() { all[i].ResetAt(deadline.Add(-time.Minute)) },
			} {
				value := recovered(nil, func(*side) { call() })
				if value == nil {
					worked++
				} else {
					require.Regexp(t, wrongSide, value)
				}
			}
		}
	})
	t.Logf("%d of %d calls worked", worked, 3*n)
	require.True(t, repeats.Cancel())
	pending := timer.Pending()
	for i := range all {
		active, err := all[i].ResetAt(deadline)
		require.NoError(t, err)
		if !active {
			pending++
		}
	}
	require.Equal(t, pending, timer.Pending())
	require.Len(t, timer.Stop(), pending, "Stop finds all that is pending")
	testkit.CheckCounts(t, timer.Stats())
}
