package crossing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/hashedwheel/hashedwheel/idle"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
	"github.com/hashedwheel/hashedwheel/keyed"
	"github.com/hashedwheel/hashedwheel/wheeldebug"
)

// All that is made for a Timer panics at once if the Timer is nil or zero, and says so. It does not wait until it is used.
func TestNilAndZeroTimer(t *testing.T) {
	made, err := hashedwheel.New()
	require.NoError(t, err)
	defer made.Stop()
	for name, use := range map[string]func(timer *hashedwheel.Timer){
		"hashedwheel: NewGroup": func(timer *hashedwheel.Timer) { hashedwheel.NewGroup(timer) },
		"clock: New":            func(timer *hashedwheel.Timer) { clock.New(timer) },
		"idle: New":             func(timer *hashedwheel.Timer) { idle.New(timer, time.Second) },
		"keyed: New":            func(timer *hashedwheel.Timer) { keyed.New[int, int](timer, nil) },
		"wheeldebug: Handler":   func(timer *hashedwheel.Timer) { wheeldebug.Handler(made, timer) },
	} {
		require.PanicsWithValue(t, name+": nil Timer", func() { use(nil) })
		require.PanicsWithValue(t, ticks.NotMade, func() { use(new(hashedwheel.Timer)) }, name)
		use(made)
	}
}
