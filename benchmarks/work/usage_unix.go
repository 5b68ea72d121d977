//go:build unix

package work

import (
	"runtime"
	"syscall"
	"time"
)

// usage is what the process has used since its start.
type usage struct {
	cpu  time.Duration // user and system
	peak float64       // bytes, the most that was resident
}

func used() usage {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	peak := float64(u.Maxrss)
	if runtime.GOOS != "darwin" {
		peak *= 1024 // in KiB, except on macOS
	}
	return usage{time.Duration(u.Utime.Nano() + u.Stime.Nano()), peak}
}
