package hashedwheel

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hashedwheel/hashedwheel/internal/seat"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

const (
	// A timeout is near if it is due within nearTime. A hand that does not move for nearTime stands still, and a timeout that
	// is pending for twice as long may leave the nursery. A goroutine seldom waits as long for a busy processor.
	nearTime = 250 * time.Millisecond

	sweepEvery = 1 << 8 // slots from one call of yielding.yieldTo to the next; a hand that has tried fewer in nearTime stands still
)

// A queue passes timeouts from many producers to the worker, without a lock. Producers also take timeouts off it, because
// they drop canceled ones: see nursery.go. Its stripes keep goroutines off each other's cache lines.
type queue struct {
	stripes []stripe    // their number is a power of two
	seats   *seat.Table // says which stripe a goroutine uses; if nil, all use the first

	horizon uint64 // nearTime in ticks, at least 2

	_    [64]byte
	shut atomic.Bool // the gate is shut: the timer is stopped
}

// A stripe has two rings. The nursery has new timeouts that are far from due. The worker leaves them there, because
// most of them are canceled soon. The inbox has timeouts that are due soon, and timeouts that the worker has to move or
// remove. The worker takes them at the next boundary. The counters count what the goroutines that use the stripe do.
type stripe struct {
	nursery, inbox ring

	// Counters that never go back: each counts what has happened, not what is about to.
	armed    atomic.Uint64 // timeouts armed, except those in the nursery: see accepted
	expired  atomic.Uint64 // tasks started; a run of a repeating timeout counts when it is over, see repeating.ran
	canceled atomic.Uint64 // timeouts canceled
	resets   atomic.Uint64 // pending timeouts moved by Reset and similar methods

	inside atomic.Int64 // goroutines inside the gate, see enter

	// A stripe fills a pair of cache lines, because processors fetch lines in pairs.
	_ [128 - 5*8 - 2*unsafe.Sizeof(ring{})]byte
}

// A ring has slots for timeouts. Its hand goes round, one slot at a time.
type ring struct {
	table  atomic.Pointer[table] // nil before the first put, and after the worker has closed the table
	filled atomic.Uint64         // slots that were filled
	passed atomic.Uint64         // slots that were passed; the hand is at passed + filled
	by     atomic.Uint64         // the worker must look at the blocks by this tick
}

// A table has the blocks of a ring. Its length is a power of two. A block that is in the table stays there.
type table struct {
	blocks []atomic.Pointer[block] // nil until the hand comes there

	end     atomic.Uint64 // where the hand ends this lap
	passed  atomic.Uint64 // the value of ring.passed when this lap began
	aging   atomic.Bool   // in this lap the hand moves on what has lived long, see nursery.go
	nextAge atomic.Uint64 // the tick at which the next such lap may begin
}

// A block has some slots. By is the tick by which the worker must look at them, Never, or closed.
type block struct {
	slots [blockSize]atomic.Pointer[Timeout]
	by    atomic.Uint64
	met   atomic.Uint64 // by slot: the hand has met the timeout in a lap that was aging
}

const (
	blockSize = 64
	minBlocks = 4 // of a table

	soon   = 1 // for ring.by and block.by: the worker looks at the next boundary
	closed = 0 // for block.by: what is put into the block may be lost
)

var (
	stoppedTable = new(table) // the table of each ring after Stop
	closedBlock  = new(block) // in a table that was closed, in place of a block that nobody had made
)

// newTable returns a table for a ring, whose first lap begins where the hand is.
func newTable(r *ring, blocks uint64) *table {
	t := &table{blocks: make([]atomic.Pointer[block], blocks)}
	t.passed.Store(r.passed.Load())
	t.end.Store(r.hand() + t.slots())
	return t
}

func (t *table) slots() uint64 { return uint64(len(t.blocks)) * blockSize }

// block returns a block, which it makes if necessary.
func (t *table) block(i uint64) *block {
	b := t.blocks[i].Load()
	if b == nil {
		b = new(block)
		b.by.Store(ticks.Never)
		if !t.blocks[i].CompareAndSwap(nil, b) {
			b = t.blocks[i].Load()
		}
	}
	return b
}

// blocks returns the blocks of a ring, some of which may be nil.
func (r *ring) blocks() []atomic.Pointer[block] {
	if t := r.table.Load(); t != nil {
		return t.blocks
	}
	return nil
}

// hand returns where the hand of a ring is: how many slots it has gone in all.
func (r *ring) hand() uint64 { return r.passed.Load() + r.filled.Load() }

// slots returns how many slots a ring has.
func (r *ring) slots() int { return len(r.blocks()) * blockSize }

// large reports whether a ring has grown.
func (r *ring) large() bool { return len(r.blocks()) > minBlocks }

// close takes the table from a ring, closes its blocks, and calls take for each timeout in a slot. Called by the owner of
// the worker's fields: the worker, or Stop.
func (r *ring) close(next *table, take func(to *Timeout)) {
	t := r.table.Swap(next)
	if t == nil {
		return
	}
	for i := range t.blocks {
		b := t.blocks[i].Load()
		if b == nil {
			if t.blocks[i].CompareAndSwap(nil, closedBlock) {
				continue
			}
			b = t.blocks[i].Load()
		}
		// Close the block before its slots are read. A producer fills a slot before it reads by. So either it finds the block
		// closed, and puts its timeout into another one, or this finds the timeout.
		if b.by.Swap(closed) == ticks.Never {
			continue
		}
		for j := range b.slots {
			if to := b.slots[j].Load(); to != nil {
				take(to)
			}
		}
	}
}

// init makes n stripes, a power of two.
func (q *queue) init(tick time.Duration, n int) {
	q.stripes, q.seats = make([]stripe, n), &seat.All
	for i := range q.stripes {
		q.stripes[i].nursery.by.Store(ticks.Never)
		q.stripes[i].inbox.by.Store(ticks.Never)
	}
	q.horizon = max(uint64(nearTime/tick), 2)
}

// defaultStripes is two for each processor, 8 to 256 in all, which take at most 32 KiB.
func defaultStripes() int { return ceilPowerOfTwo(min(max(2*runtime.GOMAXPROCS(0), 8), 256)) }

// stripe returns the stripe that the calling goroutine should use now. Any other would be correct too.
func (q *queue) stripe() *stripe { return &q.stripes[q.seats.Part(len(q.stripes))] }

// needs returns the tick by which the worker must take timeouts off the queue, or Never if it has found every stripe
// empty. It looks at one after another, so they need not have been empty at the same moment.
func (q *queue) needs() (tick uint64) {
	tick = ticks.Never
	for i := range q.stripes {
		s := &q.stripes[i]
		if s.inbox.by.Load() < ticks.Never {
			return 0
		}
		if by := s.nursery.by.Load(); by < ticks.Never || s.nursery.large() || s.inbox.large() {
			tick = min(tick, by, ticks.Never-1)
		}
	}
	return tick
}

// nearAt returns a tick at which a timeout that is due at tick is near.
func (q *queue) nearAt(tick uint64) uint64 { return max(tick-min(tick, q.horizon), soon) }

// lower makes x no more than tick, and reports whether it was more.
func lower(x *atomic.Uint64, tick uint64) bool {
	for old := x.Load(); tick < old; old = x.Load() {
		if x.CompareAndSwap(old, tick) {
			return true
		}
	}
	return false
}

// accepted returns how many timeouts were armed. A timeout that is put into a nursery has just been armed.
func (s *stripe) accepted() uint64 { return s.armed.Load() + s.nursery.filled.Load() }

// tried returns how many slots all hands have tried.
func (q *queue) tried() (n uint64) {
	for i := range q.stripes {
		n += q.stripes[i].nursery.hand() + q.stripes[i].inbox.hand()
	}
	return n
}

// enter enters the gate, and reports whether it is open: see stop.go. Every enter needs a leave, even if it is shut.
func (q *queue) enter(s *stripe) bool {
	s.inside.Add(1) // before it reads shut: see Timer.takePending
	return !q.shut.Load()
}

func (s *stripe) leave() { s.inside.Add(-1) }

func ceilPowerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }
