package clock_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/clock"
)

func beep() {}

// The task of a timer or ticker on the wheel tells what it is, and which function it calls.
func TestTasksTellTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wheel := newWheel(t)
		on := clock.New(wheel)
		defer on.NewTimer(time.Hour).Stop()
		defer on.NewTicker(time.Hour).Stop()
		defer on.AfterFunc(time.Hour, beep).Stop()
		var all []string
		for task := range wheel.Tasks() {
			all = append(all, fmt.Sprint(task))
		}
		slices.Sort(all)
		require.Equal(t, []string{
			"clock.AfterFunc github.com/hashedwheel/hashedwheel/clock_test.beep", "clock.Ticker", "clock.Timer",
		}, all)
	})
}
