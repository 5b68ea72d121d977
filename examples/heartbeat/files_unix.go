//go:build unix

package main

import (
	"math"
	"syscall"
)

// descriptors returns how many files this process may have open. That is the
// soft limit, which package os has raised to the hard one before main runs.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt // dialing will tell
	}
	return int(min(uint64(limit.Cur), math.MaxInt)) // signed on some systems
}
