package logtext

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234: "1.23µs", 5_738 * time.Millisecond: "5.74s",
		999_950 * time.Microsecond: "1s", time.Hour: "1h0m0s", math.MaxInt64: "2561111h6m40s",
	} {
		require.Equal(t, want, Duration(d).String())
	}
}

// The texts of stacks and functions are tested where they are logged, in log_test.go of the library.
func TestOtherForms(t *testing.T) {
	require.Equal(t, "another form", Stack([]byte("another form")))
	require.Equal(t, "runtime.GC", Func(runtime.GC))
	require.Empty(t, Func((func())(nil)))
}
