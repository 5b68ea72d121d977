// Package peers has the timers that are compared, behind one interface, and the caches, behind another.
package peers

import (
	"time"

	"github.com/hashedwheel/hashedwheel/benchmarks/designs"
)

// A Peer is one of the timers or caches that are compared.
type Peer struct {
	Name string
	Ours bool // this library

	Rearms    bool // a timeout can be armed again after it has ended
	Kept      bool // takes part only where timeouts are kept; it is a Keeper
	Deadlines bool // it is a Deadliner
	NoTick    bool // it is as precise as the runtime's timers

	Make      func(tick time.Duration) Timer
	MakeCache func(tick time.Duration) Cache // in place of Make, in Caches
}

// All has the timers in the order in which they are shown, with this library first. README.md describes them.
var All = []Peer{
	{Name: "hashedwheel", Ours: true, Rearms: true, Make: func(tick time.Duration) Timer { return NewWheel(tick) }},
	{Name: "hashedwheel, embedded", Ours: true, Rearms: true, Kept: true, Make: func(tick time.Duration) Timer { return embedded{NewWheel(tick)} }},
	{Name: "hashedwheel, deadline", Ours: true, Rearms: true, Kept: true, Deadlines: true, Make: func(tick time.Duration) Timer { return deadline{embedded{NewWheel(tick)}} }},
	{Name: "time", Rearms: true, NoTick: true, Make: func(time.Duration) Timer { return Time{} }},
	{Name: "time, reused", Rearms: true, Kept: true, NoTick: true, Make: func(time.Duration) Timer { return TimeReused{} }},
	{Name: "go-zero", Make: newGoZero},
	{Name: "heap design", NoTick: true, Make: func(time.Duration) Timer { return designs.NewHeap() }},
	{Name: "netty design", Make: func(tick time.Duration) Timer { return designs.NewNetty(tick) }},
}
