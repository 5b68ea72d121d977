package hashedwheel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A timeout frees its slot when its task is started. So a Reset from inside the task needs a slot again, and is refused
// if other timeouts have taken all slots meanwhile.
func TestRetryByResetLosesItsSlot(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxPending(1))
		var other *Timeout
		runs := 0
		to, err := timer.NewTimeout(TaskFunc(func(to *Timeout) {
			if runs++; runs == 1 {
				var err error
				other, err = timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				active, err := to.Reset(tick)
				require.False(t, active)
				require.ErrorIs(t, err, ErrTooManyPending)
			}
		}), tick)
		require.NoError(t, err)
		pass(time.Minute)
		require.Equal(t, 1, runs)
		require.True(t, to.IsExpired())
		require.EqualValues(t, 1, timer.Stats().Rejected)
		require.True(t, other.Cancel())
		_, err = to.Reset(tick)
		require.NoError(t, err)
		pass(tick)
		require.Equal(t, 2, runs)
	})
}

// A retry is tried until it succeeds: at once, and then after a delay that doubles, counted from the end of the previous
// try. It is both the task and its schedule.
type retry struct {
	try   func(n int) (ok bool)
	delay time.Duration
	n     int
	done  bool
}

func (r *retry) Run(*Timeout) {
	r.n++
	r.done = r.try(r.n)
}

func (r *retry) Next(prev time.Time) time.Time {
	switch {
	case r.done:
		return time.Time{}
	case r.n == 0:
		return prev
	}
	next := time.Now().Add(r.delay)
	r.delay *= 2
	return next
}

// A repeating timeout keeps its slot from the first run to the end of the last one. No other timeout gets the slot, and
// no later run is refused. This holds if a schedule says when to try again, and if the task calls Reset.
func TestRetryKeepsItsSlot(t *testing.T) {
	const tick, length = 10 * time.Millisecond, 25 * time.Millisecond
	// Each try takes 25 ms. The first begins at the first boundary. The others begin at the first boundary that is
	// 20, 40 or 80 ms after the end of the previous try.
	want := []time.Duration{10, 60, 130, 240}
	for i := range want {
		want[i] *= time.Millisecond
	}
	for name, arm := range map[string]func(timer *Timer, try func(n int) bool) (*Timeout, error){
		"Schedule": func(timer *Timer, try func(n int) bool) (*Timeout, error) {
			r := &retry{try: try, delay: 2 * tick}
			return timer.Schedule(r, r)
		},
		"Reset": func(timer *Timer, try func(n int) bool) (*Timeout, error) {
			n, delay := 0, 2*tick
			return timer.ScheduleWithFixedDelay(TaskFunc(func(to *Timeout) {
				if n++; try(n) {
					require.True(t, to.Cancel())
					return
				}
				active, err := to.Reset(delay)
				require.True(t, active)
				require.NoError(t, err)
				delay *= 2
			}), 0, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, WithTick(tick), WithMaxPending(1))
				start := time.Now()
				full := func() {
					_, err := timer.AfterFunc(time.Hour, nop)
					require.ErrorIs(t, err, ErrTooManyPending)
					require.Equal(t, 1, timer.Pending())
					require.Equal(t, 1, timer.slotsInUse())
				}
				var tries moments
				to, err := arm(timer, func(n int) bool {
					tries.note()
					full()
					time.Sleep(length)
					full()
					return n == len(want)
				})
				require.NoError(t, err)
				for !to.IsExpired() && !to.IsCanceled() {
					full()
					pass(tick / 2)
				}
				require.Equal(t, want, tries.since(start))
				require.Zero(t, timer.Pending())
				require.Zero(t, timer.slotsInUse())
				last, err := timer.AfterFunc(time.Hour, nop)
				require.NoError(t, err)
				require.True(t, last.Cancel())
			})
		})
	}
}
