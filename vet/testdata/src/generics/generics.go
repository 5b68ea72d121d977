// Package generics overwrites and copies structs that hold a timeout in generic code.
package generics

import (
	"iter"
	"slices"
	"sync/atomic"

	"helper"

	wheel "github.com/hashedwheel/hashedwheel"
)

type call struct {
	id      int
	timeout wheel.Timeout
}

type pair[T any] struct{ a, b T }

// A type parameter may be part of its own constraint.
func rec[A interface{ ~[2]A }](a *A)                          { var z A; *a = z } // want rec:`moves \[0\]`
func mutual[A interface{ ~[2]B }, B interface{ ~[2]A }](a *A) { var z A; *a = z } // want mutual:`moves \[0 1\]`
func listed[A interface{ ~[2]A | call }](a *A)                { *a = *new(A) }    // want listed:`moves \[0\]` `assignment to \*a overwrites the hashedwheel.Timeout in A`

func timeouts[A wheel.Timeout | int](a *A) { *a = *new(A) } // want timeouts:`moves \[0\]` `assignment to \*a overwrites the hashedwheel.Timeout in A`

func zero[T any](p *T) { // want zero:`moves \[0\]`
	var z T
	*p = z
}

func overwritten[K comparable, T any](m map[K]*T, k K) { // want overwritten:`moves \[1\]`
	zero(m[k])
}

func even[T any](n int, p *T) { // want even:`moves \[0\]`
	if n > 0 {
		odd(n-1, p)
	}
}

func odd[T any](n int, p *T) { // want odd:`moves \[0\]`
	if n == 0 {
		zero(p)
		return
	}
	even(n-1, p)
}

func clone[T any](p *T) *T           { c := *p; return &c }      // want clone:`moves \[0\]`
func get[T any](p *T) T              { return *p }               // want get:`moves \[0\]`
func wrap[T any](p *T) any           { return pair[T]{a: *p} }   // want wrap:`moves \[0\]`
func declare[T any](p *T)            { var c = *p; _ = &c }      // want declare:`moves \[0\]`
func send[T any](ch chan<- T, p *T)  { ch <- *p }                // want send:`moves \[0\]`
func grow[S ~[]T, T any](s S, v T) S { return append(s, v) }     // want grow:`moves \[1\]`
func swap[T any](s []T)              { s[0], s[1] = s[1], s[0] } // want swap:`moves \[0\]`
func naked[T any](f func(*T)) (v T)  { f(&v); return }           // want naked:`moves \[0\]`
func ignored[T any](p *T)            { *p = *new(T) }            //hashedwheelvet:ignore only for types without a Timeout
func stop[T any](p *T)               { panic(*p) }               // want stop:`moves \[0\]`
func pass[T any](p *T) *T            { return fresh(*p) }        // want pass:`moves \[0\]`
func seen[T any](p *T, f func(T))    { f(*p) }
func keep[T any](p *T) *T            { return p }
func fresh[T any](v T) *T            { return &v }
func list[T any](all ...T) []T       { return all }
func newOne[T any]() *T              { return new(T) }
func newArray[T any]() *[2]T         { return new([2]T) }
func counts[T any](p *[2]T) []T      { return make([]T, len(*p)) }
func each[T any](s []T, f func(*T)) {
	for i := range s {
		f(&s[i])
	}
}

func zeroCall[T any](p *T, c *call) {
	*c = call{} // want `assignment to \*c overwrites the hashedwheel.Timeout in call`
}

func (p *pair[T]) reset()         { *p = pair[T]{} }      // want reset:`moves \[0\]`
func (p *pair[T]) swap()          { p.a, p.b = p.b, p.a } // want swap:`moves \[0\]`
func (p pair[T]) first() (f *T)   { return &p.a }         // want first:`moves \[0\]`
func (p *pair[T]) second() (f *T) { return &p.b }

func uses(c *call, n *int, calls []call, ch chan call, m map[string]*call) {
	zero(c)          // want `zero overwrites or copies the hashedwheel.Timeout in call`
	zero(&calls[0])  // want `zero overwrites or copies`
	zero[call](c)    // want `zero overwrites or copies`
	zero(&c.timeout) // want `zero overwrites or copies a hashedwheel.Timeout`
	f := zero[call]  // want `zero overwrites or copies`
	f(c)
	overwritten(m, "a")       // want `overwritten overwrites or copies`
	even(2, c)                // want `even overwrites or copies`
	_ = clone(c)              // want `clone overwrites or copies`
	_ = get(c)                // want `get overwrites or copies`
	_ = wrap(c)               // want `wrap overwrites or copies`
	stop(c)                   // want `stop overwrites or copies`
	_ = pass(c)               // want `pass overwrites or copies`
	seen(c, func(call) {})    // copylocks
	declare(c)                // want `declare overwrites or copies`
	send(ch, c)               // want `send overwrites or copies`
	_ = grow(calls, call{})   // want `grow overwrites or copies`
	swap(calls)               // want `swap overwrites or copies`
	_ = naked(func(*call) {}) // want `naked overwrites or copies`
	ignored(c)
	_ = keep(c)
	_ = fresh(call{})
	_ = list(call{}, call{})
	_, _ = newOne[call](), newArray[call]()
	_ = counts((*[2]call)(calls))
	each(calls, func(*call) {})
	zeroCall(n, c)
	zero(n)
	zero(&m)
	zero(&c)
	zero(c) //hashedwheelvet:ignore not bound yet
	var p atomic.Pointer[call]
	p.Store(c)
}

func methods(p *pair[call], q *pair[*call]) {
	p.reset()     // want `reset overwrites or copies the hashedwheel.Timeout in call`
	p.swap()      // want `swap overwrites or copies`
	_ = p.first() // want `first overwrites or copies`
	_ = p.second()
	reset := (*pair[call]).reset // want `reset overwrites or copies`
	reset(p)
	q.reset()
	q.swap()
	_ = q.first()
}

func helpers(c *call, s *helper.Stack[call], t *helper.Stack[*call]) {
	helper.Zero(c) // want `helper.Zero overwrites or copies the hashedwheel.Timeout in call`
	helper.Nil(&c)
	helper.Twice(c.id, c) // want `helper.Twice overwrites or copies`
	helper.Twice(c.id, &c.id)
	s.Push(call{}) // want `helper.Push overwrites or copies`
	_ = s.Len()
	t.Push(c)
}

func sequences(calls []call, pointers []*call) {
	next, stop := iter.Pull(slices.Values(calls)) // want `iter.Pull overwrites or copies the hashedwheel.Timeout in call`
	defer stop()
	c, ok := next()
	_, _ = &c, ok
	next2, stop2 := iter.Pull2(slices.All(calls)) // want `iter.Pull2 overwrites or copies`
	defer stop2()
	_, _, _ = next2()
	var seq iter.Seq[call]
	_ = slices.Collect(seq)               // want `slices.Collect overwrites or copies`
	_ = slices.MaxFunc(calls, nil)        // want `slices.MaxFunc overwrites or copies`
	for c := range slices.Values(calls) { // copylocks
		_ = &c
	}
	for i := range slices.All(calls) {
		_ = i
	}
	next3, stop3 := iter.Pull(slices.Values(pointers))
	defer stop3()
	_, _ = next3()
	_ = slices.IndexFunc(pointers, func(c *call) bool { return c.id == 1 })
}
