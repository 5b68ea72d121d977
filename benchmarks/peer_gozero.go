package main

import (
	"sync/atomic"
	"time"

	"github.com/zeromicro/go-zero/core/collection"
)

// goZeroTimer gives each timeout a key of its own. The key is the handle.
type goZeroTimer struct {
	*collection.TimingWheel
	keys atomic.Uint64
}

func newGoZero(o options) timer {
	w, err := collection.NewTimingWheel(o.tick, wheelSize, func(_, value any) { value.(func())() })
	if err != nil {
		panic(err)
	}
	return &goZeroTimer{TimingWheel: w}
}

func (t *goZeroTimer) After(d time.Duration, f func()) handle {
	key := any(t.keys.Add(1))
	if err := t.SetTimer(key, f, d); err != nil {
		panic(err)
	}
	return key
}

func (t *goZeroTimer) Cancel(h handle) bool { return t.RemoveTimer(h) == nil }

func (t *goZeroTimer) Reset(h handle, d time.Duration, _ func()) handle {
	if err := t.MoveTimer(h, d); err != nil {
		panic(err)
	}
	return h
}
