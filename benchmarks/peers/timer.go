package peers

import "time"

// A Handle is whatever After returns: a pointer or a key.
type Handle = any

// A Timer is what a workload drives. An adapter adds a call through an interface, and what a user of the peer would
// have to add.
type Timer interface {
	// After calls f once, after d. It does not fail.
	After(d time.Duration, f func()) Handle

	// Cancel reports whether the timeout will never fire.
	Cancel(h Handle) bool

	// Reset moves a pending timeout, and returns the handle to use from then on. If a peer has no reset, it cancels
	// and schedules f again, as its users do.
	Reset(h Handle, d time.Duration, f func()) Handle
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
