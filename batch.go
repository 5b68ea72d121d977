package hashedwheel

import "sync/atomic"

// A batch holds timeouts that came due together, or that have been canceled and whose tasks
// are to be told. It is filled by one goroutine and then added to the runners; from there on
// they take one timeout after the other, each by moving the cursor. So what is behind a
// task that blocks can always be taken by somebody else.
type batch struct {
	due      []*Timeout
	tick     uint64 // the wheel's when it was handed over: none was due later
	canceled bool   // these have been canceled

	cursor atomic.Int64 // index of the first that nobody has taken

	begun bool // a runner has it; guarded by runners.mu
}

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

// takeRest returns all that are left.
func (b *batch) takeRest() []*Timeout {
	i := b.cursor.Swap(int64(len(b.due))) // b.due[i:] is the caller's from here
	return b.due[min(i, int64(len(b.due))):]
}

// left returns the number of those that nobody has taken.
func (b *batch) left() int { return max(0, len(b.due)-int(b.cursor.Load())) }

func (b *batch) done() bool { return b.left() == 0 }
