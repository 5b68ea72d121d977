//go:build !unix

package main

import "errors"

// measurable returns an error if this program cannot measure on this system.
func measurable() error {
	return errors.New("runs on Unix only, because it reads the CPU time of its processes with getrusage")
}

// used is never called, because measurable returns an error.
func used() usage { panic(measurable()) }
