package hashedwheel

import "unsafe"

// Init binds a Timeout that is a field of the caller's own struct to the timer and to a task. It is to be
// called once, before any other goroutine knows the struct. [Timeout.Reset] or [Timeout.ResetAt] then
// arms the timeout, as often as the caller likes, and allocates nothing.
//
//	type call struct {
//		timeout hashedwheel.Timeout
//		...
//	}
//
//	timer.Init(&c.timeout, c) // c has a method Run(*hashedwheel.Timeout)
//	c.timeout.Reset(3 * time.Second)
//
// All that is promised of a timeout of NewTimeout holds for this one. The struct may be used again, for
// instance by way of a sync.Pool, as soon as Cancel has returned true or the task has returned. If the
// task is a Canceler, it may be used again when Canceled has returned, and a Cancel allocates. A goroutine
// that still has the struct from its last use must not call Cancel any more: it would cancel the next one.
//
// The library still knows the timeout until the second tick boundary after its end. Until then the struct
// is not collected, and must not be overwritten: to clear it for the next use, clear its other fields.
//
// Init panics if the task is nil, or if the timeout is bound already. It allocates nothing, unless the
// task is a Canceler.
func (t *Timer) Init(to *Timeout, task Task) {
	t.checkMade()
	adopted, bits := adopt(task)
	word := to.word.Load()
	to.checkCopy(word)
	switch {
	case adopted == nil:
		panic("hashedwheel: Timer.Init: nil task")
	case status(word) == pending:
		panic("hashedwheel: Timer.Init: the Timeout is in use")
	case to.timer != nil:
		panic("hashedwheel: Timer.Init: called twice for a Timeout")
	}
	to.timer, to.task = t, adopted
	to.word.Store(bits | fresh | to.sum()<<sumShift)
}

// checkInit panics if the timeout belongs to no timer. Method is the caller's.
func (to *Timeout) checkInit(method string) {
	if to.timer == nil {
		panic("hashedwheel: Timeout." + method + ": Timer.Init has not been called")
	}
}

// checkCopy panics if the timeout, which has this word, is a copy of one that Init has bound: the queue
// and the wheel know the other one. Like the copy of a mutex, go vet finds most of them, but not what
// append does to a slice of structs. One of 15 copies goes unnoticed.
func (to *Timeout) checkCopy(word uint64) {
	if sum := word >> sumShift & sumMask; sum != 0 && sum != to.sum() {
		panic("hashedwheel: a Timeout has been copied after Timer.Init, perhaps when a slice of structs grew")
	}
}

// sum returns a number for the address of the timeout, 1 to 15. It is a hash with two multiplications: with
// one, as in spotAt, the sums of a moved array would all differ from those before, or hardly any.
func (to *Timeout) sum() uint64 {
	const odd = 0x9E3779B97F4A7C15
	h := uint64(uintptr(unsafe.Pointer(to))) * odd
	h = (h ^ h>>32) * odd
	return 1 + h>>32*sumMask>>32
}
