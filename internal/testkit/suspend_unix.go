//go:build unix

package testkit

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// Suspend stops a process for a while. Where there is no signal for that, it skips the test.
func Suspend(t testing.TB, p *os.Process, length time.Duration) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(length)
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
