//go:build !unix

package testkit

import "time"

// processTime returns the CPU time of the process, if it is known.
func processTime() (cpu time.Duration, known bool) { return 0, false }
