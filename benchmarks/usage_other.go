//go:build !unix

package main

import "errors"

// measurable returns nil where this program can measure.
func measurable() error {
	return errors.New("needs a Unix: it reads the CPU time of its processes with getrusage")
}

// used is never called, because measurable returns an error.
func used() usage { panic(measurable()) }
