// Package helper has generic functions for another package.
package helper

func Zero[T any](p *T) { *p = *new(T) } // want Zero:`moves \[0\]`

func Nil[T any](p **T) { *p = nil }

type Stack[T any] struct{ items []T }

func (s *Stack[T]) Push(v T) { s.items = append(s.items, v) } // want Push:`moves \[0\]`

func (s *Stack[T]) Len() int { return len(s.items) }

func unexported[T any](p *T) { Zero(p) } // want unexported:`moves \[0\]`

func Twice[K comparable, T any](k K, p *T) { // want Twice:`moves \[1\]`
	unexported(p)
	unexported(p)
}

type Flag struct{}

func (*Flag) Canceled() bool { return false }
