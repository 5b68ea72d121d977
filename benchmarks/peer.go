package main

import (
	"runtime/debug"
	"time"
)

// A handle is whatever a peer's After returns: a pointer or a key.
type handle any

// A timer is what a workload drives. An adapter adds a call through an interface, and what a user of the peer
// would have to add.
type timer interface {
	// After calls f once, after d. It does not fail. If a peer refuses because it is full, the
	// adapter tries again, as a user has to.
	After(d time.Duration, f func()) handle

	// Cancel reports whether the timeout will never fire. Its result is valid only if the peer tells.
	Cancel(h handle) bool

	// Reset moves a pending timeout, and returns the handle to use from then on. If a peer has no
	// reset, it cancels and schedules f again, as its users do.
	Reset(h handle, d time.Duration, f func()) handle

	Stop()
}

// A keeper has timeouts that their owner keeps. Reset arms them again, also after Cancel or after they fired.
type keeper interface {
	// Keep returns a timeout that is not armed. It calls f each time that it fires.
	Keep(f func()) handle
}

// A deadliner can reset a timeout to a deadline that its caller has computed.
type deadliner interface {
	ResetAt(h handle, deadline time.Time)
}

// options are what a workload asks of a timer.
type options struct {
	tick    time.Duration
	horizon time.Duration // the longest delay, for a peer that must know it

	maxPending int // 0 for no limit
}

// wheelSize is the number of buckets, for each peer that lets the user choose and reaches every delay with
// it: Netty's default.
const wheelSize = 512

// A peer is one of the timers that are compared.
type peer struct {
	name      string
	module    string // import path of its module, for the version; empty for a design and package time
	about     string
	cancels   bool // a timeout can be canceled
	tells     bool // Cancel's result can be relied on
	stops     bool // nothing fires after Stop
	limits    bool // it can limit the number of pending timeouts
	deadlines bool // it is reset to deadlines that its caller has computed; it is a deadliner
	rearms    bool // a timeout can be armed again after it has ended

	fixedTick time.Duration // the only tick that it can have; 0 for any
	million   bool          // takes part only in workloads with million set
	kept      bool          // takes part only where timeouts are kept; it is a keeper

	make func(options) timer
}

// peers are shown in this order, with this library first.
var peers = []peer{
	{
		name: "hashedwheel", module: "github.com/hashedwheel/hashedwheel",
		about:   "this library, one level of 512 buckets",
		cancels: true, tells: true, stops: true, limits: true, rearms: true, make: newHashedwheel,
	},
	{
		name: "hashedwheel, embedded", module: "github.com/hashedwheel/hashedwheel",
		about:   "this library, timeouts in a struct of the caller's: Init once, then Reset",
		cancels: true, tells: true, stops: true, limits: true, rearms: true, kept: true, make: newHashedwheelEmbedded,
	},
	{
		name: "hashedwheel, deadline", module: "github.com/hashedwheel/hashedwheel",
		about:   "the same with ResetAt",
		cancels: true, tells: true, stops: true, limits: true, rearms: true, deadlines: true, kept: true, make: newHashedwheelDeadline,
	},
	{
		name: "hashedwheel, 3 levels", module: "github.com/hashedwheel/hashedwheel",
		about:   "this library, WithTick(10 ms), WithLevels(3)",
		cancels: true, tells: true, stops: true, limits: true, fixedTick: 10 * time.Millisecond, million: true,
		make: newHashedwheelLevels,
	},
	{
		name: "time", about: "package time: time.AfterFunc, a heap for each processor",
		cancels: true, tells: true, rearms: true, make: newTime,
	},
	{
		name: "time, reused", about: "package time: time.AfterFunc once, then Reset and Stop",
		cancels: true, tells: true, rearms: true, kept: true, make: newTimeReused,
	},
	{
		name: "gost", module: "github.com/dubbogo/gost",
		about:   "time.TimerWheel of dubbogo: sorted lists fed by one channel",
		cancels: true, stops: true, fixedTick: 10 * time.Millisecond, make: newGost,
	},
	{
		name: "go-zero", module: "github.com/zeromicro/go-zero",
		about:   "collection.TimingWheel: a wheel fed by channels, with keys",
		cancels: true, stops: true, make: newGoZero,
	},
	{
		name: "siddontang", module: "github.com/siddontang/go",
		about: "timingwheel: a channel for each bucket, shared by all that wait; no cancel",
		stops: true, make: newSiddontang,
	},
	{
		name: "heap design", about: "a heap under a mutex, a few workers (as in ScheduledThreadPoolExecutor; java.util.Timer has one)",
		cancels: true, tells: true, stops: true, make: newHeapDesign,
	},
	{
		name: "channel design", about: "a wheel that one goroutine owns, fed by a channel, with a map of keys",
		cancels: true, stops: true, make: newChannelDesign,
	},
	{
		name: "netty design", about: "Netty's HashedWheelTimer: MPSC queue, rounds counted down, tasks on the worker",
		cancels: true, tells: true, stops: true, make: newNettyDesign,
	},
	{
		name: "kafka design", about: "Kafka's timer: wheels under locks, a delay queue of buckets, a goroutine for each task",
		cancels: true, tells: true, stops: true, make: newKafkaDesign,
	},
}

func findPeer(name string) (peer, bool) {
	for _, p := range append(peers, floorPeer) {
		if p.name == name {
			return p, true
		}
	}
	return peer{}, false
}

// tick returns the tick that the peer has in a workload.
func (p peer) tick(w *workload) time.Duration {
	if p.fixedTick != 0 {
		return p.fixedTick
	}
	return w.tick
}

// version returns the version of the module of the peer.
func (p peer) version() string {
	if p.module == "" {
		return ""
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == p.module && dep.Replace == nil {
				return dep.Version
			}
		}
	}
	return ""
}
