//go:build !unix

package testkit

import (
	"os"
	"testing"
	"time"
)

// Suspend stops a process for a while. Where there is no signal for that, it skips the test.
func Suspend(t testing.TB, _ *os.Process, _ time.Duration) {
	t.Helper()
	t.Skip("needs a signal that stops a process: this system has none")
}
