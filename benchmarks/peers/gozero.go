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
	w, err := collection.NewTimingWheel(tick, designs.WheelSize, func(_, value any) { value.(func())() })
	if err != nil {
		panic(err)
	}
	return &goZeroTimer{TimingWheel: w}
}

func (t *goZeroTimer) After(d time.Duration, f func()) Handle {
	key := any(t.keys.Add(1))
	if err := t.SetTimer(key, f, d); err != nil {
		panic(err)
	}
	return key
}

func (t *goZeroTimer) Cancel(h Handle) bool { return t.RemoveTimer(h) == nil }

func (t *goZeroTimer) Reset(h Handle, d time.Duration, _ func()) Handle {
	if err := t.MoveTimer(h, d); err != nil {
		panic(err)
	}
	return h
}
