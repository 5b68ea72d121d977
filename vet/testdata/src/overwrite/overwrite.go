// Package overwrite overwrites and copies structs that hold a timeout.
package overwrite

import (
	"maps"
	"slices"
	"sort"
	"sync"

	wheel "github.com/hashedwheel/hashedwheel"
)

type (
	Timeout = wheel.Timeout
	call    struct {
		id      int
		timeout wheel.Timeout
	}
	aliased struct{ Timeout }
	nested  struct {
		name  string
		calls [2]call
	}
	session struct {
		call
		ping   call
		both   [2]call
		held   *call
		others []call
	}
	box[T any] struct {
		value   T
		timeout wheel.Timeout
	}
	pair[T any] struct{ a, b T }
)

func newCall() (*call, error) { return &call{}, nil }
func value() call             { return call{id: 1} }
func values() (call, error)   { return call{}, nil }
func find(int) *call          { return nil }
func use(*call)               {}

// What is new has not been bound.
func declarations() (*call, call) {
	var a call
	var b = call{id: 1}
	c := call{}
	d := &call{timeout: wheel.Timeout{}}
	e := new(call)
	f := value()
	g, err := values()
	h := [2]call{{id: 1}}
	i := []call{{id: 1}}
	j := *new(call)
	_ = call{}
	_ = err
	for _, x := range []*call{d, e} {
		x.id = 1
	}
	use(&a)
	use(&b)
	use(&c)
	use(&f)
	use(&g)
	use(&h[0])
	use(&i[0])
	use(&j)
	return &call{id: 2}, call{id: 3}
}

var pool = sync.Pool{New: func() any { return new(call) }}

func put(c *call) {
	c.timeout.Cancel()
	*c = call{} // want `assignment to \*c overwrites the hashedwheel.Timeout in call`
	pool.Put(c)
}

func assignments(c *call, to *wheel.Timeout, a *aliased, n *nested, s *session, list []call, array *[2]call, i int) {
	c.id = 0
	(*c) = call{id: 1}           // want `assignment to \(\*c\) overwrites`
	*to = wheel.Timeout{}        // want `assignment to \*to overwrites a hashedwheel.Timeout`
	c.timeout = wheel.Timeout{}  // want `assignment to c.timeout overwrites a hashedwheel.Timeout`
	a.Timeout = Timeout{}        // want `assignment to a.Timeout overwrites a hashedwheel.Timeout`
	*a = aliased{}               // want `the hashedwheel.Timeout in aliased`
	*n = nested{name: n.name}    // want `the hashedwheel.Timeout in nested`
	n.calls = [2]call{}          // want `the hashedwheel.Timeout in \[2\]call`
	n.calls[i] = call{}          // want `assignment to n.calls\[i\] overwrites`
	s.call = call{}              // want `assignment to s.call overwrites`
	s.ping, s.held = call{}, nil // want `assignment to s.ping overwrites`
	s.both[1] = value()          // want `assignment to s.both\[1\] overwrites`
	*s.held = *new(call)         // want `assignment to \*s.held overwrites`
	*s.held = *find(1)           // want `assignment to \*s.held overwrites`
	s.held = &call{}
	s.others = nil
	list[i] = call{id: i} // want `assignment to list\[i\] overwrites`
	array[0] = call{}     // want `assignment to array\[0\] overwrites`
	*array = [2]call{}    // want `assignment to \*array overwrites`
	_ = call{}
	*find(2) = call{} // want `assignment to \*find\(2\) overwrites`
	find(2).id = 1
	var err error
	*c, err = values() // want `assignment to \*c overwrites`
	_ = err
	*c = call{} //hashedwheelvet:ignore it is not bound yet
	*c = call{} /* want `assignment to \*c` `needs a reason` */ //hashedwheelvet:ignore
}

// Copylocks reports swaps, and other copies of variables.
func swaps(a, b *call, list []call, ch chan call) {
	*a, *b = *b, *a                     // copylocks
	list[0], list[1] = list[1], list[0] // copylocks
	*a = *b                             // copylocks
	*a = <-ch                           // copylocks
	c := list[0]                        // copylocks
	use(&c)
	for _, c := range list { // copylocks
		use(&c)
	}
}

// The address of a local variable must be taken before Bind can bind what is in it.
func locals(b bool) call {
	var never, taken, called, sliced, captured call
	var array [2]call
	var whole nested
	if b {
		never = call{id: 1}
		never.timeout = wheel.Timeout{}
		whole.calls[1] = call{}
	}
	use(&taken)
	taken = call{} // want `assignment to taken overwrites`
	called.timeout.Cancel()
	called = call{} // want `assignment to called overwrites`
	sliced = call{}
	captured = call{}
	func() { captured = call{} }()
	use(&array[:][0])
	array = [2]call{}      // want `assignment to array overwrites`
	taken, err := values() // want `assignment to taken overwrites`
	_, _, _ = err, sliced.id, whole.name
	_ = captured.id
	return never // copylocks
}

var global call

func globals() {
	global = call{} // want `assignment to global overwrites`
}

func elements(list []call, to []wheel.Timeout, pointers []*call, c *call, ch chan<- call) []call {
	list = append(list, call{})      // want `append may move the elements, which copies the hashedwheel.Timeout in call: use a slice of pointers`
	list = append(list, list...)     // want `append may move`
	to = append(to, wheel.Timeout{}) // want `append may move the elements, which copies a hashedwheel.Timeout:`
	pointers = append(pointers, c)
	copy(list, list[1:]) // want `copy overwrites and copies`
	copy(pointers, pointers[1:])
	clear(list) // want `clear overwrites the hashedwheel.Timeout in call`
	clear(pointers)
	list = slices.Insert(list, 0, call{})                                    // want `slices.Insert overwrites or copies the hashedwheel.Timeout in call`
	list = slices.Delete(list, 0, 1)                                         // want `slices.Delete overwrites or copies`
	list = slices.Grow(list, 1)                                              // want `slices.Grow overwrites or copies`
	other := slices.Clone(list)                                              // want `slices.Clone overwrites or copies`
	slices.Reverse[[]call](list)                                             // want `slices.Reverse overwrites or copies`
	sort.Slice(list, func(i, j int) bool { return list[i].id < list[j].id }) // want `sort.Slice copies`
	other = slices.Collect(func(yield func(call) bool) {})                   // want `slices.Collect overwrites or copies`
	pointers = slices.Delete(pointers, 0, 1)
	_ = slices.IndexFunc(pointers, func(c *call) bool { return c.id == 1 })
	_ = slices.Clip(other)
	_, _ = len(list), cap(list)
	ch <- *c // want `send copies the hashedwheel.Timeout in call`
	ch <- call{}
	return list[1:]
}

func dereferences() (call, any) {
	a := *find(1)                // want `\*find\(1\) copies the hashedwheel.Timeout in call`
	var b = (*find(1))           // want `\*find\(1\) copies`
	c := pair[call]{a: *find(1)} // want `\*find\(1\) copies`
	(*find(1)).id = 2
	use(&*find(1))
	_ = len((*find(1)).timeoutList())
	_, _, _ = &a, &b, &c
	return *find(1), any(*find(2)) // want `\*find\(1\) copies` `\*find\(2\) copies`
}

func findTwo() *[2]call          { return nil }
func findTime() *wheel.Timeout   { return nil }
func made() (list []call, n int) { return make([]call, len(*findTwo())), 0 }
func stops()                     { panic(*find(1)) } // want `\*find\(1\) copies`

func lengths() int {
	one := (*find(1)).id
	return one + len(*findTwo()) + len((*findTwo())) + cap(*findTwo())
}

func (*call) timeoutList() []int { return nil }

type byKey = map[string]call // want `Bind cannot bind the hashedwheel.Timeout in call as the value of a map: use a pointer`

func mapped(m byKey) {
	m["a"] = call{}                 // its type is reported
	clear(m)                        // want `clear overwrites`
	_ = make(map[int]wheel.Timeout) // want `Bind cannot bind a hashedwheel.Timeout as the value of a map`
	_ = map[int]*call{}
	_ = maps.Clone(map[int]*call{})
}

func generic /* want generic:`moves \[0 1\]` */ [T any, C call | int, M interface{ ~[]call }, N interface{ *T }](t *T, c *C, m M, n N, b *box[T], p *pair[T]) {
	var zero T
	var zeroCall C
	*t = zero
	*c = *new(C) // want `assignment to \*c overwrites the hashedwheel.Timeout in C`
	_ = zeroCall // copylocks
	*n = zero
	*b = box[T]{} // want `the hashedwheel.Timeout in box\[T\]`
	*p = pair[T]{}
	m = append(m, call{}) // want `append may move`
}

func instances(b *box[int], p *pair[call], q *pair[int]) {
	*b = box[int]{}   // want `the hashedwheel.Timeout in box\[int\]`
	*p = pair[call]{} // want `the hashedwheel.Timeout in pair\[call\]`
	*q = pair[int]{}
}

// Another Timeout is not that of the library.
type other struct{ Timeout int }

func others(o *other, p **call, f *func(call)) {
	*o = other{}
	*p = &call{}
	*f = nil
}
