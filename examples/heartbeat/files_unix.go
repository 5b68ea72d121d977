//go:build unix

package main

import (
	"math"
	"syscall"
)

// descriptors returns how many files this process may have open. That is the
// soft limit, which package os raises to the hard limit before main runs.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt // dialing fails when the limit is reached
	}
	return int(min(uint64(limit.Cur), math.MaxInt)) // Cur is signed on some systems
}
