package hashedwheel

import (
	"slices"
	"sync/atomic"
)

// A batch holds timeouts that came due together, or that have been canceled and whose tasks
// are to be told. It is filled by one goroutine and then added to the runners; from there on
// they take one timeout after the other, each by moving the cursor. So what is behind a
// task that blocks can always be taken by somebody else.
type batch struct {
	due      []*Timeout
	tick     uint64 // the wheel's when it was handed over: none was due later
	canceled bool   // these have been canceled
	own      bool   // these have own tasks, and must not wait for others

	cursor atomic.Int64 // index of the first that nobody has taken

	// Guarded by runners.mu.
	begun   bool // a runner has had it
	listed  bool // in runners.batches
	holders int  // who may still look at it: it must not be used for others meanwhile
}

// spareBatches is how many batches are kept for the next ones, of at most 16 KiB each.
const spareBatches = 8

// take returns the next timeout, nil if none is left. It forgets it, since the batch lives
// until its last one is taken, and that may be long.
func (b *batch) take() *Timeout {
	i := b.cursor.Add(1) - 1 // b.due[i] is the caller's from here
	if i >= int64(len(b.due)) {
		return nil
	}
	to := b.due[i]
	b.due[i] = nil
	return to
}

// takeRest returns all that are left. The caller has to forget them, and must be a holder.
func (b *batch) takeRest() []*Timeout {
	i := b.cursor.Swap(int64(len(b.due))) // b.due[i:] is the caller's from here
	return b.due[min(i, int64(len(b.due))):]
}

// left returns the number of those that nobody has taken.
func (b *batch) left() int { return max(0, len(b.due)-int(b.cursor.Load())) }

func (b *batch) done() bool { return b.left() == 0 }

// newBatch returns an empty batch, which is the caller's until it is added.
func (r *runners) newBatch() *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spareBatch()
}

// spareBatch is newBatch, with mu held.
func (r *runners) spareBatch() *batch {
	n := len(r.spareBatches)
	if n == 0 {
		return new(batch)
	}
	b := r.spareBatches[n-1]
	r.spareBatches[n-1] = nil
	r.spareBatches = r.spareBatches[:n-1]
	return b
}

// list puts a batch behind the others. Called with mu held.
func (r *runners) list(b *batch) {
	b.listed = true
	r.batches = append(r.batches, b)
	r.added += len(b.due)
}

// prune takes the batches off the list of which nothing is left. Called with mu held.
func (r *runners) prune() {
	r.batches = slices.DeleteFunc(r.batches, func(b *batch) bool {
		if !b.done() {
			return false
		}
		b.listed = false
		r.recycle(b)
		return true
	})
}

// letGo is what each holder of a batch does in the end. Called with mu held.
func (r *runners) letGo(b *batch) {
	b.holders--
	r.recycle(b)
}

func (r *runners) letAllGo(batches []*batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range batches {
		r.letGo(b)
	}
}

// recycle keeps a batch for the next ones, once nobody can look at it any more. All that was
// in it has been taken, and forgotten by whoever took it. Called with mu held.
func (r *runners) recycle(b *batch) {
	if b.listed || b.holders > 0 || cap(b.due) > 2*batchSize || len(r.spareBatches) == spareBatches {
		return
	}
	b.due, b.canceled, b.own, b.begun = b.due[:0], false, false, false
	b.cursor.Store(0)
	r.spareBatches = append(r.spareBatches, b)
}

// forgetSpare gives back the memory that is kept for the next batches and runners. Called by
// the worker when it goes.
func (r *runners) forgetSpare() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spareBatches, r.spareRunners = nil, nil
}
