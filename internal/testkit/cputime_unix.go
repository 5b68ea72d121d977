//go:build unix

package testkit

import (
	"syscall"
	"time"
)

// processTime returns the CPU time of the process, if it is known.
func processTime() (cpu time.Duration, known bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
