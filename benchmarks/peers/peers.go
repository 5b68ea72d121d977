// Package peers has the timers that are compared, behind one interface.
package peers

import (
	"runtime/debug"
	"time"

	"github.com/hashedwheel/hashedwheel/benchmarks/designs"
)

// A Handle is whatever After returns: a pointer or a key.
type Handle = any

// A Timer is what a workload drives. An adapter adds a call through an interface, and what a user of the peer would
// have to add.
type Timer interface {
	// After calls f once, after d. It does not fail. If a peer refuses because it is full, the adapter tries again,
	// as a user has to.
	After(d time.Duration, f func()) Handle

	// Cancel reports whether the timeout will never fire. Its result is valid only if the peer tells.
	Cancel(h Handle) bool

	// Reset moves a pending timeout, and returns the handle to use from then on. If a peer has no reset, it cancels
	// and schedules f again, as its users do.
	Reset(h Handle, d time.Duration, f func()) Handle

	Stop()
}

// A Keeper has timeouts that their owner keeps. Reset arms them again, also after Cancel or after they fired.
type Keeper interface {
	// Keep returns a timeout that is not armed. It calls f each time that it fires.
	Keep(f func()) Handle
}

// A Deadliner can reset a timeout to a deadline that its caller has computed.
type Deadliner interface {
	ResetAt(h Handle, deadline time.Time)
}

// A Peer is one of the timers that are compared.
type Peer struct {
	Name   string
	Module string // import path of its module, for the version; empty for a design and package time
	About  string

	Tells     bool // Cancel's result can be relied on
	Stops     bool // nothing fires after Stop
	Rearms    bool // a timeout can be armed again after it has ended
	Kept      bool // takes part only where timeouts are kept; it is a Keeper
	Deadlines bool // it is a Deadliner

	FixedTick time.Duration // the only tick that it can have; 0 for any
	NoTick    bool          // it is as precise as the runtime's timers

	Make func(tick time.Duration) Timer
}

// All has the peers in the order in which they are shown, with this library first.
var All = []Peer{
	{
		Name: "hashedwheel", Module: Library, About: "this library, one level of 512 buckets",
		Tells: true, Stops: true, Rearms: true, Make: newHashedwheel,
	},
	{
		Name: "hashedwheel, embedded", Module: Library,
		About: "this library, timeouts in a struct of the caller's: Init once, then Reset",
		Tells: true, Stops: true, Rearms: true, Kept: true, Make: newEmbedded,
	},
	{
		Name: "hashedwheel, deadline", Module: Library, About: "the same with ResetAt",
		Tells: true, Stops: true, Rearms: true, Kept: true, Deadlines: true, Make: newDeadline,
	},
	{
		Name: "time", About: "package time: time.AfterFunc, a heap for each processor",
		Tells: true, Rearms: true, NoTick: true, Make: func(time.Duration) Timer { return Time{} },
	},
	{
		Name: "time, reused", About: "package time: time.AfterFunc once, then Reset and Stop",
		Tells: true, Rearms: true, Kept: true, NoTick: true, Make: func(time.Duration) Timer { return TimeReused{} },
	},
	{
		Name: "gost", Module: "github.com/dubbogo/gost", About: "time.TimerWheel of dubbogo: sorted lists fed by one channel",
		Stops: true, FixedTick: 10 * time.Millisecond, Make: newGost,
	},
	{
		Name: "go-zero", Module: "github.com/zeromicro/go-zero",
		About: "collection.TimingWheel: a wheel fed by channels, with keys",
		Stops: true, Make: newGoZero,
	},
	{
		Name:  "heap design",
		About: "a heap under a mutex, a few workers (as in ScheduledThreadPoolExecutor; java.util.Timer has one)",
		Tells: true, Stops: true, NoTick: true, Make: func(time.Duration) Timer { return designs.NewHeap() },
	},
	{
		Name:  "netty design",
		About: "Netty's HashedWheelTimer: MPSC queue, rounds counted down, tasks on the worker",
		Tells: true, Stops: true, Make: func(tick time.Duration) Timer { return designs.NewNetty(tick) },
	},
}

// Tick returns the tick that the peer has where the others have that one.
func (p Peer) Tick(tick time.Duration) time.Duration {
	if p.FixedTick != 0 {
		return p.FixedTick
	}
	return tick
}

// Version returns the version of the module of the peer, or "".
func (p Peer) Version() string {
	info, ok := debug.ReadBuildInfo()
	for i := 0; ok && i < len(info.Deps); i++ {
		if dep := info.Deps[i]; dep.Path == p.Module && dep.Replace == nil {
			return dep.Version
		}
	}
	return ""
}
