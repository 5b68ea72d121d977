package pool

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Random tasks are added, removed and run, at random virtual times. They end at once, block,
// run again, panic or end their goroutine. In the end the pool is closed. The model knows for each task how often it
// runs, for a pool with a limit of one the order, and for a pool without a limit when the task starts at the latest.
// The fake host checks the rest: the protocol, the limit, and that each task ends once.
func TestModel(t *testing.T) {
	for range newShare(t).Rounds(5, sized(20, 100, 1000)) {
		synctest.Test(t, testModel)
	}
}

func testModel(t *testing.T) {
	const tick = time.Millisecond
	r := newRand(t)
	h := newFake(t, tick)
	h.fed = r.IntN(2) == 0
	h.pool.Limit = []int{0, 0, 1, 2, 7}[r.IntN(5)]
	h.pool.Procs = 1 + r.IntN(4)
	h.feeder.next = uint32(r.Uint64())
	slow, burst, reruns := r.IntN(4), 1+r.IntN(400), r.IntN(2) == 0

	// A plan is what the model knows of a task.
	type plan struct {
		*task
		runs    int // how often it runs if nothing stops it
		begun   moments
		removed bool
	}
	var plans []*plan
	added := make(map[*plan]time.Time)
	newPlan := func() *plan {
		p := &plan{task: new(task), runs: 1}
		block := time.Duration(0)
		if r.IntN(10) < slow {
			block = time.Duration(r.Int64N(int64(20 * tick)))
		}
		end := r.IntN(20)
		p.f = func() {
			p.begun.note()
			if time.Sleep(block); end == 0 {
				panic("task")
			}
			exit(end == 1)
		}
		if reruns && r.IntN(5) == 0 {
			p.runs += r.IntN(10)
			left := p.runs
			p.next = func() bool {
				left--
				return left > 0
			}
		}
		return p
	}
	for range 20 {
		var some []*task
		for range r.IntN(burst) {
			p := newPlan()
			plans, some = append(plans, p), append(some, p.task)
			added[p] = time.Now()
		}
		h.add(some...)
		if r.IntN(2) == 0 {
			pass(time.Duration(r.Int64N(int64(3 * tick))))
		}
		if len(plans) > 0 && r.IntN(3) == 0 {
			for range r.IntN(burst) {
				p := plans[r.IntN(len(plans))]
				p.removed = h.remove(p.task) || p.removed
			}
		}
	}
	if r.IntN(2) == 0 {
		pass(time.Hour)
		require.Zero(t, h.pool.Waiting())
	}
	rest := h.close()
	pass(time.Hour)

	for _, p := range plans {
		stopped := p.removed || p.last || slices.Contains(rest, p.task)
		require.True(t, p.task.runs == p.runs || stopped && p.task.runs < p.runs, "%d runs, %+v", p.task.runs, p)
		begun := p.begun.since(added[p])
		if h.pool.Limit == 0 && len(begun) > 0 {
			require.LessOrEqual(t, begun[0], 2*tick)
		}
	}
	if h.pool.Limit == 1 && !reruns {
		require.True(t, slices.IsSortedFunc(h.order(), func(a, b *task) int { return int(int32(a.pos - b.pos)) }))
	}
}
