package peers

import (
	"sync/atomic"
	"time"

	"github.com/zeromicro/go-zero/core/collection"

	"github.com/hashedwheel/hashedwheel/benchmarks/designs"
)

// goZeroTimer gives each timeout a key of its own. The key is the handle.
type goZeroTimer struct {
	*collection.TimingWheel
	keys atomic.Uint64
}

func newGoZero(tick time.Duration) Timer {
	run := func(_, value any) { value.(func())() }
	return &goZeroTimer{TimingWheel: must(collection.NewTimingWheel(tick, designs.WheelSize, run))}
}

func (t *goZeroTimer) After(d time.Duration, f func()) Handle {
	key := any(t.keys.Add(1))
	return must(key, t.SetTimer(key, f, d))
}

func (t *goZeroTimer) Cancel(h Handle) bool { return t.RemoveTimer(h) == nil }

func (t *goZeroTimer) Reset(h Handle, d time.Duration, _ func()) Handle {
	return must(h, t.MoveTimer(h, d))
}
