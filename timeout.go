package hashedwheel

import (
	"sync/atomic"
	"unsafe"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// The word
//
// Goroutines race for one word of 64 bits in the Timeout, and for nothing else. The word holds the tick and
// the status. Five further bits each say one thing: the timeout is on the queue; a run of a repeating timeout
// is in progress; the timeout was reset since it was armed, or during that run; it has a hook; the worker has
// never taken it off the queue. The remaining bits detect copies of the Timeout.
//
//	 idle (Init)
//	   |        Reset                      a runner claims it
//	   |      +-------+                 +---------------------> expired
//	   +-->   |       v                 |                         |
//	NewTimeout ----> pending -----------+                         |
//	                  ^ ^               |  Cancel, Stop           |
//	                  | |               +---------------------> canceled
//	                  | +------------------- Reset ---------------+
//	                  +--------------------- Reset ---------------+
//
// A repeating timeout stays pending when it is claimed, and is at work until the run is over.
// Then it is armed for the next run, or expires if its schedule has ended.
//
// Cancel, Reset and the runner's claim are each one compare-and-swap of the whole word. So
// when two of them race, one wins, and the other sees the result.
//
// The rules, which the rest of the package relies on:
//
//  1. A goroutine that sets the queued bit pushes the timeout on the queue. A goroutine that finds the
//     bit set need not push, because the worker has yet to take the timeout, and will see the changed word.
//     The worker clears the bit after it has taken the timeout off the queue, and reads the rest of the
//     word in the same atomic step. Stop does the same, and so does a producer that drops a canceled
//     timeout: see prune.go.
//  2. A goroutine sets the bit, and pushes, only inside the gate (see stop.go), or as a runner that is
//     claiming, or in NewTimeout, when no other goroutine knows the timeout. Only the push of NewTimeout
//     can find that Stop has closed the queue, and no other goroutine relies on that push.
//  3. A pending timeout whose bit is clear is in a bucket at a tick not later than its own, or in a
//     list of due timeouts, or with the worker or a runner. If a runner finds a timeout of its group reset to
//     a later tick, and its bit clear, it puts the timeout on the queue again.
//  4. A runner claims a timeout only if the boundary of the tick in the word has passed. A Reset may put a
//     timeout on the list while a runner still has it: one claim wins, and no claim is early.
//  5. While a timeout is at work, no runner claims it, and it is put into no bucket or list. So its runs
//     never overlap. When the run is over, the runner arms the timeout again or ends it, as the word says
//     then.
const (
	statusMask = 1<<2 - 1
	queued     = 1 << 2 // on the queue, or about to be pushed
	atWork     = 1 << 3 // repeating, and a run is in progress
	moved      = 1 << 4 // reset since it was armed, or while at work
	hooked     = 1 << 5 // the task has a hook; never changes
	fresh      = 1 << 6 // in no bucket and on no list: the worker has never taken it off the queue
	sumShift   = 7
	sumMask    = 1<<4 - 1 // hash of the address of a timeout bound by Init, see checkCopy; 0 for others
	tickShift  = sumShift + 4

	idle     = 0 // has never been armed
	pending  = 1 // will expire or run again, unless it is canceled before
	expired  = 2 // its task has been started, or is just about to be
	canceled = 3 // ended by Cancel or by Stop
)

// Ticks fill the rest of the word exactly. Otherwise this does not compile.
var _ [ticks.Bits]struct{} = [64 - tickShift]struct{}{}

func status(word uint64) uint64 { return word & statusMask }
func tickOf(word uint64) uint64 { return word >> tickShift }

// withStatus returns the word with another status. The rest is as it was.
func withStatus(word, status uint64) uint64 { return word&^statusMask | status }

// waits reports whether a timeout is pending and not at work.
func waits(word uint64) bool { return word&(statusMask|atWork) == pending }

// pendingAt returns the word of a timeout that is pending at tick, and not moved. The other bits are as
// they were.
func pendingAt(word, tick uint64) uint64 {
	return tick<<tickShift | word&(queued|atWork|hooked|fresh|sumMask<<sumShift) | pending
}

// A Task is what runs when a timeout expires. Tasks of different timeouts may run at the same time, on
// goroutines of the timer or of an executor. With WithMaxConcurrency(1) they run one after another.
type Task interface {
	// Run is called with the handle of the timeout: once when it expires, or for each run of a repeating
	// timeout. In terms of the Go memory model, arming the timeout, or resetting it, happens before the call.
	Run(to *Timeout)
}

// TaskFunc is an adapter that makes a function a Task.
type TaskFunc func(to *Timeout)

// Run calls f(to).
func (f TaskFunc) Run(to *Timeout) { f(to) }

// plainFunc is TaskFunc for a function that does not need the handle.
type plainFunc func()

func (f plainFunc) Run(*Timeout) { f() }

// A Timeout is the handle of a task that a Timer runs later. Any goroutine may call its methods at any
// time, also from inside the task.
//
// Most often NewTimeout or AfterFunc makes it. It can also be a field of your own struct: [Timer.Init]
// binds it to a timer and a task, and then arming it allocates nothing. The zero Timeout is idle: it is not
// pending, expired or canceled. Its Cancel and Move return false, and its Wait returns at once.
//
// A Timeout must not be copied after Init. Resetting a copy, or canceling one that is pending, panics in 14
// of 15 cases. It must not be overwritten either, not even by its zero value, until the second tick boundary
// after it has ended.
//
// It takes 48 bytes on 64-bit machines. As long as you keep the handle, it keeps the task in memory. The
// library itself keeps neither the handle nor the task beyond the second tick boundary after the timeout has
// ended.
type Timeout struct {
	// Immutable after NewTimeout, or Init.
	timer *Timer
	task  Task // the user's, or a hook

	// Shared.
	word atomic.Uint64

	// Owned until the push by the goroutine that has set the queued bit. Then owned by the goroutine that
	// takes the timeout off the queue.
	link *Timeout

	// Owned by the worker: the number of the bucket, as wheel.placeOf returns it, 0 for none, or listed; and the
	// position in the bucket, or on the list.
	bucket, pos uint32
}

// listed is the value of Timeout.bucket while the timeout is on the list of its crew, or on its way there, at
// position pos. It stays when a runner takes the timeout.
const listed = ^uint32(0)

// wordPtr returns the word of a timeout that no other goroutine knows yet. It can be set without the fence
// of an atomic store, because the push that makes the timeout known has one.
func (to *Timeout) wordPtr() *uint64 { return (*uint64)(unsafe.Pointer(&to.word)) }

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
