package hashedwheel

import "slices"

// An own task is one of the library itself: the end of a Sleep, a beat of a Ticker. It does not block, and runs no code of the user's. So it is run beyond what
// WithMaxConcurrency allows and without the executor, for the tasks that these are busy with may
// be waiting for it.
type own interface {
	Task

	// handBack is called by Stop, which has ended the timeout. It does not return it, since
	// nobody has a handle of it, but counts it as canceled.
	handBack()
}

func isOwn(to *Timeout) bool {
	_, ok := to.Task().(own)
	return ok
}

// bounded reports whether tasks have to wait for others.
func (r *runners) bounded() bool { return r.limit > 0 || r.submit != nil }

// spawnOwn starts a runner for own tasks, if there is none. Called with mu held.
func (r *runners) spawnOwn() {
	if !slices.ContainsFunc(r.live, func(rn *runner) bool { return rn.own }) {
		r.start(true)
	}
}
