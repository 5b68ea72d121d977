package hashedwheel

import (
	"github.com/hashedwheel/hashedwheel/internal/due"
	"github.com/hashedwheel/hashedwheel/internal/semaphore"
)

// limited is the task of a key of a keyed.Map that has a limit: see due.Limited.
type limited = due.Limited[*Timeout]

// A limitedHook is the hook of a limited task. A timeout that is due and finds no permit is left in the queue of its
// semaphore, pending and not claimed. When it has got one, the worker hands it over again, behind other tasks that are due.
//
//	list of a pool ---> runner ---> claim: a permit? -- yes --> task runs ---> ran: the permit goes to the first that waits
//	     ^                               | no                                         |
//	     |                               v             queued                         |
//	     +---- worker <---- inbox <--- queue of the semaphore <-----------------------+
//
// A permit that is on its way must not be lost. So a timeout that waits, or has been given a permit, is neither canceled nor
// reset: a Map does so only with its lock held and before the boundary, and claim holds the same lock. Only Stop ends it.
type limitedHook struct{ noHook }

func (limitedHook) claim(to *Timeout, word uint64) (claimed uint64, ok bool) {
	task := to.task.(limited)
	task.Lock()
	defer task.Unlock()
	if to.word.Load() != word {
		return 0, false // it has been reset or canceled before this had the lock
	}
	if s, place := task.Semaphore(); !task.Ended() && !s.Acquire(to, place) {
		return 0, true
	}
	for ; waits(word); word = to.word.Load() { // the worker may take it off the queue
		if claimed, ok = (noHook{}).claim(to, word); ok {
			return claimed, true
		}
	}
	return 0, true // Stop has ended it, so permits no longer matter
}

// ran gives the permit back, and queues the timeout that gets it.
func (limitedHook) ran(to *Timeout) bool {
	t := to.timer
	stripe := t.queue.stripe()
	if !t.queue.enter(stripe) { // before the next one leaves the queue: Stop finds it there, or on the inbox
		return false
	}
	defer stripe.leave()
	s, place := to.task.(limited).Semaphore()
	if next := s.Release(place); next != nil {
		if next.word.Or(queued)&queued == 0 { // otherwise a Reset just before its boundary has pushed it
			t.worker.push(stripe, next)
		}
		t.worker.wakeNow()
	}
	return false
}

func init() {
	due.NewSemaphore = func(t any, n int) any { return semaphore.New(&t.(*Timer).semaphores, n) }
}
