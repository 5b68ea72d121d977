// Package bound overwrites and copies structs before and after they may have been bound.
package bound

import (
	wheel "github.com/hashedwheel/hashedwheel"
)

type call struct {
	id      int
	timeout wheel.Timeout
}

type session struct {
	ping call
	held *call
}

func (c *call) Run(*wheel.Timeout) {}
func (c *call) bind(t *wheel.Timer) error {
	t.Bind(&c.timeout, c)
	return nil
}

func find() *call { return nil }

// What a variable holds is bound only after its address was taken.
func variables(t *wheel.Timer, again bool) {
	var early call
	early = call{id: 1}
	early.timeout = wheel.Timeout{}
	t.Bind(&early.timeout, &early)
	early = call{} // want `assignment to early overwrites`

	for range 3 {
		var inside call
		inside = call{}
		t.Bind(&inside.timeout, &inside)
	}
	var outside call
	for range 3 {
		outside = call{} // want `assignment to outside overwrites`
		t.Bind(&outside.timeout, &outside)
	}
	var counted call
	for i := 0; i < 3; i++ {
		if i > 1 {
			counted = call{} // want `assignment to counted overwrites`
		}
		counted.bind(t)
	}
	var before call
	for range 3 {
		before = call{}
	}
	before.bind(t)

	var captured call
	reset := func() { captured = call{} } // want `assignment to captured overwrites`
	captured.bind(t)
	reset()
	func() {
		var own call
		own = call{}
		own.bind(t)
	}()

	var err error
	var meanwhile call
	meanwhile, err = call{}, meanwhile.bind(t) // want `assignment to meanwhile overwrites`
	_ = err
}

func jumps(t *wheel.Timer) {
	var c call
again:
	c = call{} // want `assignment to c overwrites`
	c.bind(t)
	goto again
}

// Each round has its own variable, which begins as a copy of the one of the round before.
func rounds(t *wheel.Timer) {
	for c := new(call); c.id < 3; *c = (call{}) { // want `assignment to \*c overwrites`
		c.bind(t)
	}
}

// A new struct is bound only after the pointer to it was used.
func pointers(t *wheel.Timer, again bool) *call {
	c := new(call)
	*c = call{id: 1}
	c.id = 2
	c.timeout = wheel.Timeout{}
	(*c) = call{id: c.id}
	t.Bind(&c.timeout, c)
	*c = call{} // want `assignment to \*c overwrites`

	d := &call{id: 1}
	*d = call{}
	d.bind(t)
	*d = call{} // want `assignment to \*d overwrites`

	var e = new(session)
	e.ping = call{}
	e.ping.timeout = wheel.Timeout{}
	*e = session{}
	*e.held = call{} // want `assignment to \*e.held overwrites`
	e.ping.bind(t)
	e.ping = call{} // want `assignment to e.ping overwrites`

	f := new(call)
	for range 3 {
		*f = call{} // want `assignment to \*f overwrites`
		f.bind(t)
	}
	g := new(call)
	g = find()
	*g = call{} // want `assignment to \*g overwrites`

	h := find()
	*h = call{} // want `assignment to \*h overwrites`

	i := new(call)
	clear := func() { *i = call{} } // want `assignment to \*i overwrites`
	defer clear()

	j := &e.ping
	*j = call{} // want `assignment to \*j overwrites`
	return i
}

var global = new(call)

func globals() {
	*global = call{} // want `assignment to \*global overwrites`
}

// A return without results copies the results that have names.
func naked(t *wheel.Timer) (c call) {
	t.Bind(&c.timeout, &c)
	return // want `return copies the hashedwheel.Timeout in call`
}

func nakedUnbound() (c call, err error) {
	c.id = 1
	return
}

func nakedBefore(t *wheel.Timer, early bool) (c, d call, err error) {
	if early {
		return
	}
	err = d.bind(t)
	return // want `return copies the hashedwheel.Timeout in call`
}

func nakedInside(t *wheel.Timer) (c call) {
	f := func() (inner call) {
		inner.bind(t)
		return // want `return copies`
	}
	f()
	func() {
		c.id = 1
		return
	}()
	return
}

func deferred(t *wheel.Timer) (c call) {
	defer func() { c.bind(t) }()
	return // want `return copies`
}

// A return of something else overwrites the result.
func other(t *wheel.Timer) (c call, err error) {
	if err := c.bind(t); err != nil {
		return call{}, err // want `return overwrites the hashedwheel.Timeout in call`
	}
	if c.id == 1 {
		return other(t) // want `return overwrites`
	}
	if c.id == 2 {
		return call{}, nil //hashedwheelvet:ignore it is not bound with this id
	}
	return c, nil // copylocks
}

func otherBound(t *wheel.Timer) (c call, err error) {
	return call{}, c.bind(t) // want `return overwrites`
}

func otherUnbound() (c call, err error) {
	c.id = 1
	return call{}, nil
}
