package hashedwheel

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// The parts in brief
//
// This is the first step of "Reading the code" in CONTRIBUTING.md, which has the other steps and a glossary.
//
// Producers are the goroutines that call the methods. The worker is the one goroutine that turns the wheel, in rounds: at a
// tick boundary it takes timeouts off the queue, and hands over due ones. Runners are the goroutines that run tasks.
//
//	NewTimeout ----> nursery --+
//	                           +--> worker --> bucket of the wheel --> list of due timeouts --> runner --> the task
//	Reset, Cancel -> inbox ----+
//
// The first Reset of a bound timeout puts it into a nursery, as NewTimeout does. A Reset to an earlier tick puts a timeout
// of a nursery into a second slot. The queue has what the worker has yet to take. Each stripe of it has a nursery, a ring of
// slots where most timeouts are canceled before the worker comes (nursery.go), and an inbox, a stack (mpsc.go). The list and
// the runners are in internal/pool. The gate (stop.go) lets producers push onto inboxes until Stop shuts it.

// The word
//
// A Timeout has one field for which goroutines race, a word of 64 bits. It holds the tick, the status, six more bits that
// are named below, and three bits that detect copies of the Timeout.
//
//	unarmed (Bind)
//	   |        Reset                      a runner claims it
//	   |      +-------+                 +---------------------> expired
//	   +-->   |       v                 |                         |
//	NewTimeout ----> pending -----------+                         |
//	                  ^ ^               |  Cancel                 |
//	                  | |               +---------------------> canceled
//	                  | +------------------- Reset ---------------+
//	                  +--------------------- Reset ---------------+
//
//	pending ---- Stop ----> returned (unarmed, with its tick) ---- Cancel ----> canceled
//
// A repeating timeout stays pending when it is claimed, and is at work until the run is over. Then it is armed for
// the next run, or expires if its schedule has ended. Cancel, Reset and the claim are each one compare-and-swap of
// the whole word. So if two of them race, one wins, and the other sees the result.
const (
	statusMask = 1<<2 - 1
	queued     = 1 << 2 // on an inbox, or about to be pushed onto it, or on a stack that the worker has taken from one
	young      = 1 << 3 // in a nursery, or about to be put there
	atWork     = 1 << 4 // repeating, and a run is in progress
	moved      = 1 << 5 // a Reset has set the tick: see below
	hooked     = 1 << 6 // the task has a hook; never changes
	hurried    = 1 << 7 // with young and moved: a Reset to an earlier tick puts it into a second slot, which the worker takes next
	sumShift   = 8
	sumMask    = 1<<3 - 1            // of a bound timeout: a hash of its address, 1 to 7, see checkCopy; 0 for others
	bound      = sumMask << sumShift // not all of these bits are 0 in the word of a bound timeout
	tickShift  = sumShift + 3

	unarmed  = 0 // has never been armed, and then the tick is 0; or was returned by Stop
	pending  = 1 // will expire or run again, unless it is canceled before
	expired  = 2 // its task has been started, or is just about to be; or its schedule had no run left
	canceled = 3 // ended by Cancel; one whose task is light (hook.go) also by Stop
)

// Each Reset sets the bit moved, except the first Reset of a bound timeout. The claim of a repeating timeout clears the bit,
// and a Reset during the run sets it again. The next run of the timeout then has the bit. These three read it:
//
//   - Cancel: a timeout that was reset, or bound, stays in its nursery, because it is likely to be reset again.
//   - worker.reconcile: if the bit is set, the tick may have passed when the Reset set it, and then the worker is not late.
//   - repeating: if the bit is set, later runs count from the tick, and this run does not follow the wall clock.

// Where a timeout is
//
//	bits              place
//	young             a slot of a nursery, or on the way into it or out of it. The worker has never had it
//	young, hurried    the same, and another slot
//	queued            an inbox, and perhaps also a bucket, a list or a runner: see worker.reconcile
//	none, pending     a bucket, a list of due timeouts, the worker, or a runner
//	none, ended       nowhere. A slot or an entry may still lead to it, and is dropped when it is read
//	young, ended      its slot, or both if it is hurried, until a producer or the worker drops it
//	queued, ended     as queued, and the worker drops it. A claim does not clear the bit, so its task may be running
//	atWork            the runner that runs its task, even if it has ended, and perhaps a bucket or a list, where it does nothing
//	atWork, queued    the same, and an inbox. The worker takes it from there, and leaves it to the runner
//
// Other combinations of these bits do not occur. A slot of a nursery is a hint: it may still lead to a timeout that has left
// the nursery. The link of an inbox is not: a timeout with the bit queued is on one inbox, or about to be pushed onto one, or
// on a stack taken from one.
//
// The rest of the package relies on these rules:
//
//  1. A goroutine that sets young fills a slot, and one that sets queued pushes. If either bit is set, a goroutine only
//     changes the word. The exception is a Reset of a young timeout to an earlier tick, which sets hurried and fills a
//     second slot. The worker or Stop takes the timeout off the queue. Taking it clears the bits in the compare-and-swap
//     that reads the rest of the word. For a canceled timeout in a nursery, its Cancel or a producer may do this too
//     (nursery.go). If the worker finds a queued timeout in a slot, it leaves it on its inbox: see worker.dequeue.
//  2. Only a goroutine inside the gate (stop.go) sets queued and pushes the timeout. If it is preempted in between, only
//     this timeout may be late. (If it is preempted in worker.wake, which it may call after that, all are late.) NewTimeout
//     needs no gate: if Stop has closed the slots, NewTimeout drops its timeout, which no other goroutine knows.
//  3. A pending timeout that is not on the queue is in at least one of three places: in a bucket at a tick not later than
//     its own, on a list of due timeouts, or with the worker or a runner. A Reset, or putOff (wall.go), may have given the
//     timeout a later tick since then. In that case the worker that visits the timeout places it for the later tick, and a
//     runner that has it queues it.
//  4. A runner claims a timeout only if the boundary of the tick in the word has passed. After a Reset, the worker may
//     put a timeout on the list while a runner still has it: one of the two claims wins, and neither is early.
//  5. A timeout at work is not claimed, and an entry for it in a bucket or on a list has no effect. So its runs never
//     overlap. When the run is over, the runner reads the word, and arms the timeout again or ends it.

// Ticks fill the rest of the word exactly.
var _ [ticks.Bits]struct{} = [64 - tickShift]struct{}{}

func status(word uint64) uint64 { return word & statusMask }
func tickOf(word uint64) uint64 { return word >> tickShift }

// withStatus returns the word with another status.
func withStatus(word, to uint64) uint64 { return word&^statusMask | to }

// neverArmed reports whether a timeout has never been armed.
func neverArmed(word uint64) bool { return tickOf(word) == 0 }

// isReturned reports whether Stop has returned a timeout, and Cancel was not called since.
func isReturned(word uint64) bool { return status(word) == unarmed && !neverArmed(word) }

// waits reports whether a timeout is pending and not at work.
func waits(word uint64) bool { return word&(statusMask|atWork) == pending }

// onQueue reports whether the worker has yet to take a timeout.
func onQueue(word uint64) bool { return word&(queued|young) != 0 }

// pendingAt returns the word of a timeout that is pending at tick. It keeps the place, and whether a run is in progress, and
// clears moved.
func pendingAt(word, tick uint64) uint64 {
	return tick<<tickShift | word&(queued|young|hurried|atWork|hooked|bound) | pending
}

// A Task is what runs when a timeout expires. Tasks that are due at the same tick start in any order and may overlap. When
// the timer was late, tasks that were due at different ticks start in any order too, even with WithMaxConcurrency(1).
//
// A task shares its goroutine with the next ones. So a task that locks its thread and does not unlock it, or that calls
// debug.SetPanicOnFault, must end by runtime.Goexit, or do that on a goroutine of its own.
type Task interface {
	// Run is called once, or for each run of a repeating timeout. In terms of the Go memory model, arming or
	// resetting the timeout happens before the call.
	Run(to *Timeout)
}

// TaskFunc is an adapter that makes a function a Task.
type TaskFunc func(to *Timeout)

// Run calls f(to).
func (f TaskFunc) Run(to *Timeout) { f(to) }

// A plainFunc is the task of AfterFunc.
type plainFunc func()

func (f plainFunc) Run(*Timeout) { f() }

// A Timeout is the handle of a task that a Timer runs later. NewTimeout and similar methods make one. A Timeout may
// also be a field of your own struct: see [Timer.Bind]. Any goroutine may call its methods at any time, also from
// inside the task. A zero Timeout is idle: it is not pending, expired or canceled. Its Cancel and Move return false,
// and its WaitRunning returns nil at once.
//
// After Bind, a Timeout must never be copied or overwritten, not even by its zero value, and not even long after it
// has ended. Clear the other fields of the struct instead. Resetting a copy, or canceling a pending copy, panics in
// most cases.
//
// The library drops the handle and the task within two seconds after the end of the timeout, or two ticks if these are
// longer. [WithMaxConcurrency] describes an exception.
type Timeout struct {
	// Immutable after NewTimeout, or Bind.
	timer *Timer
	task  Task // the user's, or a hook

	// Shared.
	word atomic.Uint64

	// Owned by the worker. The field bucket is 0, or a bucket (wheel.placeOf), or the time at which the timeout was put on a
	// list (listedAt). The field pos is the position there.
	bucket, pos uint32

	// On an inbox: the timeout below. See stripe.
	next *Timeout
}

// listed is the bit of Timeout.bucket that is set if the worker last put the timeout on the list of its pool, at position
// pos. A runner may have taken the timeout since then. The other bits say when it was listed: see listedAt.
const listed = 1 << 31

// isListed reports whether listed is set. Called by the owner of bucket.
func (to *Timeout) isListed() bool { return to.bucket&listed != 0 }

// listedAt returns the value of Timeout.bucket for a timeout that is put on the list of its pool now. It counts
// milliseconds, and wraps around after 24 days.
func listedAt(elapsed time.Duration) uint32 { return listed | uint32(elapsed/time.Millisecond) }

// sinceListed returns how long a timeout has been on the list of its pool. Called by the worker.
func sinceListed(to *Timeout, elapsed time.Duration) time.Duration {
	return time.Duration((listedAt(elapsed)-to.bucket)&^listed) * time.Millisecond
}

const overwritten = "hashedwheel: a Timeout was overwritten while the timer still used it (hashedwheelvet finds where)"

// panicOverwritten panics. If the timeout is bound again, the message names the type of its task, except for a hook. It
// reads nothing that the task points to, because the user may be writing to the struct.
//
//go:noinline
func (to *Timeout) panicOverwritten() {
	if to.task == nil || to.word.Load()&hooked != 0 {
		panic(overwritten)
	}
	panic(fmt.Sprintf("%s: its task is now a %T", overwritten, to.task))
}

// wordPtr returns the word of a timeout that no other goroutine knows yet, for a plain write. It must come before
// ring.put, whose compare-and-swap makes the timeout known.
func (to *Timeout) wordPtr() *uint64 { return (*uint64)(unsafe.Pointer(&to.word)) }

// checkNil panics if the timeout is nil, as NewTimeout returns it with an error.
func (to *Timeout) checkNil() {
	if to == nil {
		panic("hashedwheel: nil Timeout: the call that should have armed it has returned an error")
	}
}

// checkCopy panics if the timeout is a copy of a bound one. It misses one copy in seven.
func (to *Timeout) checkCopy(word uint64) {
	if sum := word >> sumShift & sumMask; sum != 0 && sum != to.sum() {
		panic("hashedwheel: a Timeout has been copied after Timer.Bind, perhaps when a slice of structs grew (go vet or hashedwheelvet finds where)")
	}
}

// sum returns a hash of the address, 1 to 7. It multiplies twice. With one multiplication, all sums of an array that moves
// would change alike, so checkCopy would notice all copies or none.
func (to *Timeout) sum() uint64 {
	const odd = 0x9E3779B97F4A7C15
	h := uint64(uintptr(unsafe.Pointer(to))) * odd
	h = (h ^ h>>32) * odd
	return 1 + h>>32*sumMask>>32
}
