//go:build unix

package main

import (
	"runtime"
	"syscall"
	"time"
)

// measurable returns nil where this program can measure.
func measurable() error { return nil }

func used() usage {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	peak := float64(u.Maxrss)
	if runtime.GOOS != "darwin" {
		peak *= 1024 // all but macOS count in KiB
	}
	return usage{
		cpu:     time.Duration(u.Utime.Nano() + u.Stime.Nano()),
		wakeups: int64(u.Nvcsw),
		peak:    peak,
	}
}
