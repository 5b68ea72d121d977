package crossing

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

const heldTick = time.Millisecond

// A session is a task that has its timeout in a field.
type session struct {
	timeout hashedwheel.Timeout
	run     func(to *hashedwheel.Timeout) // may be nil
}

func (s *session) Run(to *hashedwheel.Timeout) {
	if s.run != nil {
		s.run(to)
	}
}

// A cohort is what ends together: sessions that have been armed for a minute or so.
type cohort struct {
	*testing.T
	timer *hashedwheel.Timer
	all   []*session
}

func (c *cohort) cancel() {
	for _, s := range c.all {
		if !s.timeout.Cancel() {
			c.Fatal("not canceled")
		}
	}
}

func (c *cohort) reset(delay time.Duration) {
	for i, s := range c.all {
		if _, err := s.timeout.Reset(delay + time.Duration(i%400)*heldTick); err != nil {
			c.Fatal(err)
		}
	}
}

// each cancels the timeout of each session, arms another one for it, and returns those.
func (c *cohort) each(arm func(s *session) (*hashedwheel.Timeout, error)) (others []*hashedwheel.Timeout) {
	c.cancel()
	for _, s := range c.all {
		to, err := arm(s)
		if err != nil {
			c.Fatal(err)
		}
		others = append(others, to)
	}
	return others
}

// A twice is a schedule of two runs.
type twice struct{ runs int }

func (s *twice) Next(prev time.Time) (next time.Time) {
	if s.runs == 2 {
		return next
	}
	s.runs++
	return prev.Add(time.Second)
}

// ends are the ways in which timeouts end. When a function returns, all have ended.
var ends = []struct {
	name string
	f    func(c *cohort)
}{
	{"expired", func(c *cohort) { testkit.Pass(2 * time.Minute) }},
	{"canceled on the queue", (*cohort).cancel},
	{"canceled on the wheel", func(c *cohort) {
		testkit.Pass(time.Second)
		c.cancel()
	}},
	{"canceled while due", func(c *cohort) {
		testkit.Pass(time.Second)
		done := make(chan bool)
		_, err := c.timer.AfterFunc(0, func() { <-done })
		require.NoError(c, err)
		testkit.Pass(2 * time.Minute)
		c.cancel()
		testkit.Pass(2 * heldTick)
		close(done)
	}},
	{"brought forward on the queue and expired", func(c *cohort) {
		c.reset(2 * time.Second)
		testkit.Pass(3 * time.Second)
	}},
	{"brought forward on the queue and canceled", func(c *cohort) {
		c.reset(2 * time.Second)
		c.cancel()
	}},
	{"brought forward on the wheel and expired", func(c *cohort) {
		testkit.Pass(time.Second)
		c.reset(2 * time.Second)
		testkit.Pass(3 * time.Second)
	}},
	{"put off and expired", func(c *cohort) {
		testkit.Pass(time.Second)
		c.reset(time.Hour)
		testkit.Pass(2 * time.Hour)
	}},
	{"armed again and expired", func(c *cohort) {
		testkit.Pass(time.Second)
		c.cancel()
		c.reset(10 * time.Second)
		testkit.Pass(11 * time.Second)
	}},
	{"armed again by the task and canceled", func(c *cohort) {
		for _, s := range c.all {
			s.run = func(to *hashedwheel.Timeout) { to.Reset(time.Hour) }
		}
		c.reset(time.Second) // after the write, so that the runner sees it
		testkit.Pass(2 * time.Second)
		c.cancel()
	}},
	{"expired in a panic", func(c *cohort) {
		for _, s := range c.all[:100] {
			s.run = func(*hashedwheel.Timeout) { panic("on purpose") }
		}
		c.reset(time.Second)
		testkit.Pass(2 * time.Second)
	}},
	{"repeating and canceled", func(c *cohort) {
		all := c.each(func(s *session) (*hashedwheel.Timeout, error) {
			return c.timer.ScheduleAtFixedRate(s, time.Second, time.Second)
		})
		testkit.Pass(10 * time.Second)
		for _, to := range all {
			require.True(c, to.Cancel())
		}
	}},
	{"at the end of a schedule", func(c *cohort) {
		c.each(func(s *session) (*hashedwheel.Timeout, error) { return c.timer.Schedule(s, new(twice)) })
		testkit.Pass(10 * time.Second)
	}},
	{"closed in a group", func(c *cohort) {
		group := hashedwheel.NewGroup(c.timer)
		all := c.each(func(s *session) (*hashedwheel.Timeout, error) { return group.NewTimeout(s, time.Minute) })
		testkit.Pass(time.Second)
		require.Equal(c, len(all), group.Close())
	}},
	{"returned from the queue", func(c *cohort) { require.Greater(c, len(c.timer.Stop()), len(c.all)) }},
	{"returned from the wheel", func(c *cohort) {
		testkit.Pass(time.Second)
		require.Greater(c, len(c.timer.Stop()), len(c.all))
	}},
}

// However timeouts end, the timer holds none of them after two seconds, although others are pending. Buckets had
// to grow for them, with spare memory that was all in use, or that has no room for theirs.
func TestEndedAreNotHeld(t *testing.T) {
	const n = 400 * 10 // a bucket has room for eight without growing
	for _, end := range ends {
		for _, beside := range []int{1, 5000} {
			t.Run(fmt.Sprintf("%s/beside=%d", end.name, beside), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					timer, err := hashedwheel.New(hashedwheel.WithTick(heldTick), hashedwheel.WithMaxConcurrency(1),
						hashedwheel.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
					require.NoError(t, err)
					defer timer.Shutdown(context.Background())
					for i := range beside {
						if _, err := timer.AfterFunc(100*time.Hour+time.Duration(i)*heldTick, func() {}); err != nil {
							t.Fatal(err)
						}
					}
					testkit.Pass(time.Second)
					held := make([]weak.Pointer[session], n)
					func() {
						c := &cohort{T: t, timer: timer}
						for i := range held {
							s := new(session)
							timer.Bind(&s.timeout, s)
							held[i], c.all = weak.Make(s), append(c.all, s)
						}
						c.reset(time.Minute)
						end.f(c)
					}()
					testkit.Pass(2 * time.Second)
					runtime.GC()
					alive := 0
					for _, p := range held {
						if p.Value() != nil {
							alive++
						}
					}
					require.Zero(t, alive, "of %d", n)
				})
			})
		}
	}
}
