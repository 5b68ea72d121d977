package wall

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// A follower counts how often it is asked to follow.
type follower struct {
	Run
	asked int
	no    bool
}

func (f *follower) Follow(Now) bool {
	f.asked++
	return !f.no
}

// A look asks the runs only if one of them assumes a wrong shift, also if the clock is slewed a little at a time. It asks
// again for a run that did not follow.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ticks := ticks.NewClock(time.Millisecond)
		var c *Clock
		var ahead time.Duration
		looks := 0
		c = New(&ticks, func() {
			looks++
			c.Look()
		})
		c.Ahead = func() time.Duration { return ahead }
		order := func() { // the passing of virtual time does not order memory, but the lock does
			c.Lock()
			defer c.Unlock()
		}
		look := func() {
			order()
			time.Sleep(LookEvery)
			synctest.Wait()
			order()
		}
		add := func(f *follower) {
			c.Lock()
			defer c.Unlock()
			c.Add(&f.Run, f, c.Now())
		}
		remove := func(f *follower) {
			c.Lock()
			defer c.Unlock()
			c.Remove(&f.Run)
		}
		var one, two, three follower
		for _, f := range []*follower{&one, &two, &three} {
			add(f)
			add(f)
			ahead += 60 * time.Millisecond
		}
		ahead = 30 * time.Millisecond
		look()
		require.Equal(t, [3]int{}, [3]int{one.asked, two.asked, three.asked})
		ahead = 2*60*time.Millisecond + 1 // the first one assumes 0
		look()
		require.Equal(t, [3]int{1, 1, 1}, [3]int{one.asked, two.asked, three.asked})
		for range 4 {
			ahead -= 30 * time.Millisecond
			look()
		}
		require.Equal(t, [3]int{2, 2, 2}, [3]int{one.asked, two.asked, three.asked})
		two.no = true
		remove(&one)
		remove(&one)
		ahead = time.Hour
		look()
		look()
		require.Equal(t, [3]int{2, 4, 4}, [3]int{one.asked, two.asked, three.asked})
		two.no = false
		look()
		look()
		require.Equal(t, [3]int{2, 5, 5}, [3]int{one.asked, two.asked, three.asked})

		remove(&three)
		require.True(t, c.Looks())
		remove(&two)
		require.False(t, c.Looks())
		c.Look() // the alarm had gone off before
		before := looks
		look()
		require.Equal(t, before, looks)
		add(&three)
		look()
		require.Equal(t, before+1, looks)
		require.Equal(t, ahead, c.Now().Wall.Sub(c.Now().Exact))
		remove(&three)
	})
}
