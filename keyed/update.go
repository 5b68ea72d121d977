package keyed

import (
	"runtime"

	"github.com/hashedwheel/hashedwheel/internal/due"
)

// An update is a call of Update or RemoveIf whose f is in progress. Because f runs without the lock of the shard, other calls
// that change the entry say so in the update. Guarded by the shard's mu.
//
// A call takes effect at one moment, when it has the lock again after f. If Set has replaced the value, it is the moment just
// before that. Expiry and the call exclude each other, because both need the lock, or end the timeout by one compare-and-swap:
// either the call finds that the boundary has passed, and does nothing, or it comes first, and expired gets the new value, or
// none after RemoveIf.
type update struct {
	state updateState
	over  chan struct{} // closed at the end; nil if no goroutine waits for that
	outer *update       // one of the same key that is in progress too; nil unless this one is inside the f of another one
}

type updateState int

const (
	valid    updateState = iota
	replaced             // Set has replaced the value, so the update counts as done just before that
	lost                 // the entry has ended, or an inner update has changed it, so the result is dropped
)

// Update calls f once with the value of a key, if the key is present. It stores the result, keeps the deadline, and
// returns the result and true. Updates of the same key run one after another, so Update waits for the f of another one.
//
// F runs without a lock, and may call every method. If the key expires or is removed meanwhile, the result is dropped, and
// Update returns false. If Set replaces the value meanwhile, Update returns true, as if it had come before Set. An Update
// inside f does not wait for other updates of its key. If it changes the value, their results are dropped.
//
// Outside of the synctest bubble of its timer, Update panics.
func (m *Map[K, V]) Update(key K, f func(value V) V) (V, bool) {
	return m.update(key, (*item[K, V]).alive, func(s *shard[K, V], u *update, value V) (V, bool) {
		return s.storeUpdate(key, u, f(value))
	})
}

// RemoveIf calls f once with the value of a key, if the key is present. If f returns true, it removes the key, and returns the
// value and true. Then expired is not called for the value. Otherwise RemoveIf returns the zero value and false.
//
// RemoveIf is one step. F runs without a lock, and may call every method. If the key expires, is removed or is updated
// meanwhile, RemoveIf removes nothing and returns false. If Set replaces the value meanwhile, the new value stays, and
// RemoveIf returns what f says of the old one, as if it had come before Set. Updates and RemoveIfs of the same key run one after
// another, as described at Update. After Timer.Stop, RemoveIf works on the keys that were left, as Remove does.
//
// Outside of the synctest bubble of its timer, RemoveIf panics.
func (m *Map[K, V]) RemoveIf(key K, f func(value V) bool) (V, bool) {
	return m.update(key, (*item[K, V]).listed, func(s *shard[K, V], u *update, value V) (V, bool) {
		if !f(value) {
			var none V
			return none, false
		}
		return s.removeUpdated(key, u, value)
	})
}

// update calls finish with a new update of a key and the value, if the key is there. Finish returns what update returns.
func (m *Map[K, V]) update(
	key K, there func(it *item[K, V], now uint64) bool, finish func(s *shard[K, V], u *update, value V) (V, bool),
) (V, bool) {
	s := m.shard(key)
	due.NowHere(m.timer) // may panic: before f has run, because update may have to wait, and others for it
	u, value := s.beginUpdate(key, there)
	if u == nil {
		return value, false
	}
	defer s.endUpdate(key, u) // also after a panic or a Goexit
	return finish(s, u, value)
}

// beginUpdate returns an update of a key, and the value. It waits until no other update of the key is in progress, unless
// the caller is inside an update. If the key is not there, it returns nil. Called by Map.update.
func (s *shard[K, V]) beginUpdate(key K, there func(it *item[K, V], now uint64) bool) (*update, V) {
	asked, inside := false, false
	for {
		u, value, other := s.tryUpdate(key, there, inside)
		switch {
		case other == nil:
			return u, value
		case !asked:
			asked, inside = true, insideUpdate()
		default:
			<-other
		}
	}
}

// tryUpdate is beginUpdate. Instead of waiting, it returns a channel that is closed when the other update is over.
func (s *shard[K, V]) tryUpdate(
	key K, there func(it *item[K, V], now uint64) bool, inside bool,
) (u *update, value V, other <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[key]
	if it == nil || !there(it, s.now()) {
		return nil, value, nil
	}
	outer := s.updates[key]
	if outer != nil && !inside {
		if outer.over == nil {
			outer.over = make(chan struct{})
		}
		return nil, value, outer.over
	}
	if s.updates == nil {
		s.updates = make(map[K]*update)
	}
	u = &update{outer: outer}
	s.updates[key] = u
	return u, it.value, nil
}

// insideUpdate reports whether the present update was called inside the f of another one. Then it must not wait, because it
// might wait for that one. InsideUpdate walks the stack, so beginUpdate calls it only if it would have to wait.
func insideUpdate() bool {
	pcs := make([]uintptr, 64)
	const skip = 3 // Callers, insideUpdate and beginUpdate
	n := runtime.Callers(skip, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 2*n)
		n = runtime.Callers(skip, pcs)
	}
	frames := runtime.CallersFrames(pcs[:n])
	update, more := frames.Next()
	for more {
		var frame runtime.Frame
		if frame, more = frames.Next(); frame.Function == update.Function {
			return true
		}
	}
	return false
}

// storeUpdate stores the result of an update, unless another call has come before. It returns what Update returns.
func (s *shard[K, V]) storeUpdate(key K, u *update, value V) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var none V
	switch u.state {
	case lost:
		return none, false
	case valid:
		it := s.items[key] // the same item as before
		if !it.alive(s.now()) {
			return none, false
		}
		it.value = value
		s.overtake(key, lost)
	}
	return value, true
}

// removeUpdated removes a key, unless another call has come before. It returns what RemoveIf returns.
func (s *shard[K, V]) removeUpdated(key K, u *update, value V) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch u.state {
	case lost:
		var none V
		return none, false
	case valid:
		return s.tryRemove(key)
	}
	return value, true
}

// endUpdate ends an update.
func (s *shard[K, V]) endUpdate(key K, u *update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch last := s.updates[key]; {
	case last != u:
		for last.outer != u {
			last = last.outer
		}
		last.outer = u.outer
	case u.outer != nil:
		s.updates[key] = u.outer
	default:
		delete(s.updates, key)
	}
	if u.over != nil {
		close(u.over)
	}
}

// overtake tells the updates of a key that are in progress what another call has done. Called with mu held.
func (s *shard[K, V]) overtake(key K, state updateState) {
	for u := s.updates[key]; u != nil; u = u.outer {
		if u.state == valid {
			u.state = state
		}
	}
}
