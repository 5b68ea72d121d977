//go:build unix

package main

import "syscall"

func openFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1 << 30
	}
	return int(min(limit.Cur, 1<<30))
}
