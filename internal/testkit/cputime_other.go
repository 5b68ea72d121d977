//go:build !unix

package testkit

import (
	"testing"
	"time"
)

// CPUTime returns the CPU time of the process. Where it is not known, it skips the test.
func CPUTime(t testing.TB) time.Duration {
	t.Helper()
	t.Skip("the CPU time is not known on this system")
	return 0
}
