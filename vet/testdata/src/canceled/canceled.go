// Package canceled has tasks with a method Canceled.
package canceled

import (
	"helper"

	wheel "github.com/hashedwheel/hashedwheel"
)

type Timeout = wheel.Timeout

type right struct{}

func (*right) Run(*Timeout)            {}
func (*right) Canceled(*wheel.Timeout) {}

var _ wheel.Canceler = (*right)(nil)

type none struct{}

func (none) Run(*Timeout) {}

type noArgument struct{}

func (*noArgument) Run(*Timeout) {}
func (*noArgument) Canceled()    {} // want `method Canceled of noArgument is not called when its timeout is canceled: want Canceled\(\*hashedwheel.Timeout\)`

type result struct{}

func (result) Run(*Timeout)            {}
func (result) Canceled(*Timeout) error { return nil } // want `method Canceled of result`

type byValue struct{}

func (byValue) Run(*Timeout)            {}
func (byValue) Canceled(wheel.Canceler) {} // want `method Canceled of byValue`

type two struct{}

func (two) Run(*Timeout)           {}
func (two) Canceled(*Timeout, int) {} // want `method Canceled of two`

type many struct{}

func (many) Run(*Timeout)         {}
func (many) Canceled(...*Timeout) {} // want `method Canceled of many`

type generic[T any] struct{ value T }

func (*generic[T]) Run(*Timeout)    {}
func (*generic[T]) Canceled() (t T) { return } // want `method Canceled of generic`

type task func()

func (task) Run(*Timeout)   {}
func (task) Canceled() bool { return false } // want `method Canceled of task`

// flag is no task, but base is one by embedding it.
type flag struct{}

func (*flag) Canceled() bool { return false } // want `method Canceled of base`

type base struct{ flag }

func (*base) Run(*Timeout) {}

type derived struct{ base } // reported above

type ignored struct{}

func (*ignored) Run(*Timeout) {}
func (*ignored) Canceled()    {} //hashedwheelvet:ignore the program calls it

type withoutReason struct{}

func (*withoutReason) Run(*Timeout) {}
func (*withoutReason) Canceled()    {} /* want `method Canceled of withoutReason` */ //hashedwheelvet:ignore

type derivedFromIgnored struct{ ignored }

// A method of another package is reported where the type is declared.
type foreignFlag struct{ helper.Flag } // want `method Canceled of foreignFlag`

func (*foreignFlag) Run(*Timeout) {}

type ignoredFlag struct{ helper.Flag } //hashedwheelvet:ignore the program calls it

func (*ignoredFlag) Run(*Timeout) {}

type notATask struct{}

func (*notATask) Run()           {}
func (*notATask) Canceled() bool { return false }

type field struct{ Canceled bool }

func (*field) Run(*Timeout) {}

type iface interface {
	wheel.Task
	Canceled() bool
}
