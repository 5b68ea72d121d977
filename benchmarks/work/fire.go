package work

import (
	"runtime"
	"sync/atomic"
	"time"
)

// flags record which tasks ran, with a word for each task. A counter that all runners share would cost more than
// the task.
type flags struct {
	ran []atomic.Uint64 // how often each task has run

	_     [64]byte
	first atomic.Int64 // nanoseconds since epoch; 0 if no task has run
	_     [64]byte
}

// task returns the function of task i. It writes to its own word, as a task does that has its own struct. Only
// the first task that runs reads the clock.
func (f *flags) task(i int) func() {
	word := &f.ran[i]
	return func() {
		if f.first.Load() == 0 {
			f.first.CompareAndSwap(0, int64(time.Since(epoch)))
		}
		word.Add(1)
	}
}

// await waits for the flags in order, and returns true when all are set, or false when that takes longer than patience.
// While a flag is not set it sleeps, to leave the processors to the peer.
func (f *flags) await(patience time.Duration, progress func(set int)) bool {
	end := time.Now().Add(patience)
	for i := range f.ran {
		for f.ran[i].Load() == 0 {
			if time.Now().After(end) {
				return false
			}
			progress(i)
			time.Sleep(200 * time.Microsecond)
		}
	}
	return true
}

// count returns how many tasks have run that many times or more.
func (f *flags) count(times uint64) (n int) {
	for i := range f.ran {
		if f.ran[i].Load() >= times {
			n++
		}
	}
	return n
}

// runFire arms all timeouts for one deadline. If the deadline comes before all are armed, that is a fault. It
// measures from the first task to the last, so that the place of the deadline in a tick does not matter.
func runFire(b *bench) {
	n := b.size()
	f := &flags{ran: make([]atomic.Uint64, n)}
	tasks := make([]func(), n)
	for i := range tasks {
		tasks[i] = f.task(i)
	}
	runtime.GC()
	due := time.Now().Add(pick(b, 3*time.Second, 700*ms))
	for i, task := range tasks {
		if i%1000 == 0 {
			b.doing("%d of %d armed", i, n)
		}
		b.timer.After(time.Until(due), task)
	}
	if over := time.Since(due); over > 0 {
		b.failf("arming took %.1f s too long", over.Seconds())
	}
	runtime.GC()
	if wait := time.Until(due) - 50*ms; wait > 0 {
		time.Sleep(wait)
	}
	m := b.meter()
	all := f.await(pick(b, 30*time.Second, 3*time.Second), func(set int) { b.doing("%d of %d fired", set, n) })
	last, first, deadline := time.Since(epoch), time.Duration(f.first.Load()), due.Sub(epoch)
	if !all {
		b.failf("lost %d of %d", n-f.count(1), n)
		return
	}
	m.stop(n)
	b.set("rate", float64(n)/float64(last-first)*1e3)
	b.set("wall", float64(last-first)/float64(n))
	b.set("last", float64(last-deadline)/1e6)
	b.set("peak", used().peak/1e6)
	if first < deadline {
		b.failf("early by up to %.2g ms", float64(deadline-first)/1e6)
	}
	time.Sleep(2 * b.work.tick)
	if twice := f.count(2); twice > 0 {
		b.failf("fired %d of %d twice", twice, n)
	}
	runtime.KeepAlive(tasks)
}
