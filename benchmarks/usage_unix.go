//go:build unix

package main

import (
	"runtime"
	"syscall"
	"time"
)

// measurable returns an error if this program cannot measure on this system.
func measurable() error { return nil }

func used() usage {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	peak := float64(u.Maxrss)
	if runtime.GOOS != "darwin" {
		peak *= 1024 // in KiB, except on macOS
	}
	return usage{
		cpu:     time.Duration(u.Utime.Nano() + u.Stime.Nano()),
		wakeups: int64(u.Nvcsw),
		peak:    peak,
	}
}
