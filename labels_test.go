package hashedwheel

import (
	"bytes"
	"context"
	"errors"
	"runtime/pprof"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The worker, runners, and goroutines that notify a Canceler or submit to an executor do not carry the
// profiler labels of the goroutine that happened to start them.
func TestGoroutinesHaveNoLabels(t *testing.T) {
	for name, opts := range map[string][]Option{
		"runners":  nil,
		"executor": {WithExecutor(func(func()) error { return errors.New("full") })},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(time.Millisecond))...)
				release := make(chan struct{})
				pprof.Do(t.Context(), pprof.Labels("user", "somebody"), func(context.Context) {
					_, err := timer.AfterFunc(0, func() { <-release })
					require.NoError(t, err)
					_, err = timer.AfterFunc(time.Hour, nop)
					require.NoError(t, err)
					to, err := timer.NewTimeout(&canceler{block: func() { <-release }}, time.Hour)
					require.NoError(t, err)
					require.True(t, to.Cancel())
				})
				pass(10 * time.Millisecond)
				var profile bytes.Buffer
				require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
				for _, goroutine := range []string{"(*worker).run", "TestGoroutinesHaveNoLabels.func", "(*canceler).Canceled"} {
					require.Contains(t, profile.String(), goroutine)
				}
				require.NotContains(t, profile.String(), "somebody")
				close(release)
			})
		})
	}
}
