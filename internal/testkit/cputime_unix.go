//go:build unix

package testkit

import (
	"syscall"
	"testing"
	"time"
)

// CPUTime returns the CPU time of the process. Where it is not known, it skips the test.
func CPUTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
