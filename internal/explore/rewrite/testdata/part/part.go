// Package part is used by package toy.
package part

import "sync/atomic"

// A Sum counts additions.
type Sum struct {
	Total int
	Calls atomic.Int64
}

// Add adds to the total. It is no method of sync/atomic, although its name is Add.
func (s *Sum) Add(n int) {
	s.Total += n
	s.Calls.Add(1)
}
