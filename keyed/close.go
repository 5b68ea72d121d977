package keyed

import (
	"context"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/due"
)

// The end of a Map
//
// Each value that was set and has not ended is in one of these places, or its call of expired has begun:
//
//	place            guarded by   what it holds                                 leaves it by
//	shard.items      shard.mu     keys that are alive, due or left              methods, Run, Close
//	shard.overdue    shard.mu     due or left, and its key has been set again   Run, Close
//	limit.waiting    limit.mu     Run has come, and expired waits for a turn    the end of a call, Close
//
// In the first two places, the item of a value that has not ended is not claimed. A call of expired begins when Run claims the
// item, or when the item leaves limit.waiting. Run claims an item and puts it into limit.waiting with the lock of the limit
// held. The first instruction of expired comes later, without a lock. An item that Run has claimed may stay in shard.items
// or shard.overdue for a while: see shard.leaving.
//
// Close goes through the shards, and marks each closed. With the lock held, it claims what is there. If Run has been first,
// the item is in limit.waiting or its call has begun. If Close has been first, Run does nothing. Then no item reaches the
// limit any more, and Close takes what waits there. So each value is either taken by Close, or its call has begun before
// Close returns.
//
// The claim decides, and not the state of the timeout. Close cancels a timeout only so that it is no longer pending. A runner
// may have claimed the timeout, or Stop may have returned it. In all these cases Run does nothing.

// An Entry is a key and its value.
type Entry[K comparable, V any] struct {
	Key   K
	Value V
}

// Close ends the Map, and returns what is left in it, in no order. When Close has returned, no call of expired begins.
// Each value was either passed to expired, or is returned by Close. The result has values for which expired was still
// to be called, also values that WithConcurrency holds back. So it may have several values for a key that was set
// again.
//
// Calls of expired that have begun go on, or are at their first instruction: see WaitRunning. After Close, Set, SetAt
// and GetOrSet return ErrClosed, and other methods find nothing. If f of an Update, TouchIf or RemoveIf is running, its
// result is dropped, unless a Set has come before. The timer goes on. A second Close returns nil.
//
// After Timer.Stop, Close also returns the values whose timeouts Stop has returned. Then the tasks of these timeouts do
// nothing. If expired is nil, Close returns no value whose deadline has passed, except after Timer.Stop.
//
// Close may be called from anywhere, also from inside expired. Outside of the synctest bubble of its timer, Close
// panics.
func (m *Map[K, V]) Close() (left []Entry[K, V]) {
	m.checkMade()
	m.closing.Lock()
	defer m.closing.Unlock()
	for i := range m.shards {
		left = m.shards[i].close(left)
	}
	if m.limit != nil {
		for _, h := range m.limit.takeWaiting() {
			s := h.item.shard
			s.mu.Lock() // a task may read the key, to take the item out
			left = append(left, h.item.take())
			s.mu.Unlock()
		}
	}
	return left
}

// close closes the shard, and appends its entries.
func (s *shard[K, V]) close(left []Entry[K, V]) []Entry[K, V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowHere() // may panic: before anything has changed
	for key, it := range s.items {
		s.overtake(key, lost)
		ended := s.owner.expired == nil && !it.listed(now)
		it.timeout.Cancel()
		if !it.claim() {
			continue
		}
		if entry := it.take(); !ended {
			left = append(left, entry)
		}
	}
	for it := range s.overdue {
		it.timeout.Cancel()
		if it.claim() {
			left = append(left, it.take())
		}
	}
	s.items, s.overdue, s.most, s.spare, s.closed = nil, nil, 0, nil, true
	return left
}

// take returns the entry of an item that has ended, and clears it there, because the timer may keep the item for a while.
func (it *item[K, V]) take() (entry Entry[K, V]) {
	none := entry
	entry = Entry[K, V]{it.key, it.value}
	it.key, it.value = none.Key, none.Value
	return entry
}

// WaitRunning waits for the calls of expired that are in progress, and returns nil when they are over. When WaitRunning returns
// nil after Close, expired is not running and will not run. If the context is done first, WaitRunning returns the context's
// error. Inside expired, WaitRunning returns only when the context is done.
//
// If the caller of Timer.Stop runs tasks itself, WaitRunning may return before they are over. Without WithConcurrency,
// WaitRunning looks at each running task of the timer. Outside of the synctest bubble of its timer, WaitRunning panics.
func (m *Map[K, V]) WaitRunning(ctx context.Context) error {
	m.checkMade()
	due.Root.NowHere(m.timer) // may panic
	for _, over := range m.calls() {
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// calls returns a channel for each call of expired in progress, which is closed when the call is over.
func (m *Map[K, V]) calls() (calls []<-chan struct{}) {
	if m.limit != nil {
		return m.limit.untilOver()
	}
	mine := func(task any) bool { it, ok := task.(*item[K, V]); return ok && it.shard.owner == m }
	due.Root.EachRun(m.timer, mine, func(_ any, _ time.Time, _ bool, over <-chan struct{}) { calls = append(calls, over) })
	return calls
}
