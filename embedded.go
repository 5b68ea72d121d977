package hashedwheel

import "unsafe"

// Init binds a Timeout that is a field of your own struct to the timer and to a task. Call it once, before
// any other goroutine knows the struct. Then [Timeout.Reset] or [Timeout.ResetAt] arms the timeout any
// number of times, and allocates nothing.
//
//	type call struct {
//		timeout hashedwheel.Timeout
//		...
//	}
//
//	timer.Init(&c.timeout, c) // c has a method Run(*hashedwheel.Timeout)
//	c.timeout.Reset(3 * time.Second)
//
// Such a timeout keeps all promises of one that NewTimeout returns. The struct may be used again, for
// instance through a sync.Pool, as soon as Cancel has returned true or the task has returned. If the task
// is a Canceler, Cancel allocates, and the struct may be used again only when Canceled has returned. A
// goroutine that still has the struct from an earlier use must not call Cancel any more, because it would
// cancel the present use.
//
// The library still refers to the timeout until the second tick boundary after its end. Until then the
// struct is not garbage collected, and must not be overwritten. To clear the struct for its next use, clear
// the other fields.
//
// Init panics if the task is nil, or if the timeout is bound already. It allocates nothing, unless the
// task is a Canceler.
func (t *Timer) Init(to *Timeout, task Task) {
	t.checkMade()
	prepared, bits := prepareTask(task)
	word := to.word.Load()
	to.checkCopy(word)
	switch {
	case prepared == nil:
		panic("hashedwheel: Timer.Init: nil task")
	case status(word) == pending:
		panic("hashedwheel: Timer.Init: the Timeout is in use")
	case to.timer != nil:
		panic("hashedwheel: Timer.Init: called twice for a Timeout")
	}
	to.timer, to.task = t, prepared
	to.word.Store(bits | fresh | to.sum()<<sumShift)
}

// checkInit panics if the timeout belongs to no timer. Method is the name of the caller.
func (to *Timeout) checkInit(method string) {
	if to.timer == nil {
		panic("hashedwheel: Timeout." + method + ": Timer.Init has not been called")
	}
}

// checkCopy panics if the timeout, which has this word, is a copy of one that Init has bound. The queue and
// the wheel know only the original. Go vet finds most copies, as it does for a mutex. It does not find
// the copies that append makes when it grows a slice of structs. One of 15 copies goes unnoticed.
func (to *Timeout) checkCopy(word uint64) {
	if sum := word >> sumShift & sumMask; sum != 0 && sum != to.sum() {
		panic("hashedwheel: a Timeout has been copied after Timer.Init, perhaps when a slice of structs grew")
	}
}

// sum returns a hash of the address of the timeout, 1 to 15. It takes two multiplications. With only one,
// as in spotAt, moving an array of structs would change either all of their sums, or hardly any.
func (to *Timeout) sum() uint64 {
	const odd = 0x9E3779B97F4A7C15
	h := uint64(uintptr(unsafe.Pointer(to))) * odd
	h = (h ^ h>>32) * odd
	return 1 + h>>32*sumMask>>32
}
