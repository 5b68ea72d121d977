// Package foreign has a Timeout of its own.
package foreign

type Timeout struct{ id int }

type call struct{ timeout Timeout }

func (*call) Run(*Timeout) {}

func (*call) Canceled() {}

func clear(c *call, list []call) []call {
	*c = call{}
	return append(list, call{})
}
