package keyed

import (
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/due"
)

// An update has the calls of Update, TouchIf and RemoveIf of one key: the one whose f is in progress, and the ones that wait
// for their turn. It is in shard.updates as long as there are any. Because f runs without the lock of the shard, other calls
// that change the entry say so in the update. Guarded by the shard's mu.
//
// A call takes effect at one moment, when it has the lock again after f. If Set has replaced the value meanwhile, the call
// takes effect just before the Set. If Touch has moved the deadline, a TouchIf takes effect just before the Touch. Expiry and
// the call exclude each other, because both need the lock, or end the timeout by one compare-and-swap. If the boundary has
// passed first, the call does nothing. If the call comes first, expired gets the new value, or none after RemoveIf.
//
// A call that comes between two others goes first, although others wait, because a switch of goroutines costs more than most
// f do. Each call wakes the first in line when it ends. After a waiter has been the first for starvingAfter, no other call
// goes before it.
type update struct {
	state   updateState
	moved   bool     // Touch or TouchAt has moved the deadline since f began
	waiting []waiter // in line
}

// A waiter is a call that waits for its turn.
type waiter struct {
	turn  chan struct{} // wakes it, when it is the first in line and no f is in progress
	since time.Time     // it is the first in line since then
}

// starvingAfter is that of sync.Mutex. Strict turns would switch goroutines at each call, which makes many short calls slower.
const starvingAfter = time.Millisecond

type updateState int

const (
	free     updateState = iota // no f is in progress
	valid                       // an f is in progress, and the entry is as it was
	replaced                    // Set has replaced the value, so the call in progress counts as done just before that
	lost                        // the entry has ended, so the result is dropped
)

// Update calls f once with the value of a key, if the key is present. It stores the result, keeps the deadline, and
// returns the result and true.
//
// Calls of Update, TouchIf and RemoveIf for the same key run one after another, as if each locked a mutex of that key
// while f runs. Inside f, do not call them for the same key of the same Map: such a call waits for itself forever. For
// other keys and other Maps they may be called, and wait like any other. As with mutexes, two goroutines that each wait
// for the other's key wait forever.
//
// No lock of the Map is held while f runs, and f may call all other methods, also for its key. If the key expires or is
// removed meanwhile, or the Map is closed, the result is dropped, and Update returns false. If Set replaces the value
// meanwhile, Update returns true, as if Update had come before Set. If f panics or ends its goroutine, nothing changes,
// and the next call follows.
//
// Only Update, TouchIf and RemoveIf wait for f. Get, Touch, All and expired do not, and may use the value at the same time. So
// if V is a pointer, f must not change what it points to, except with a lock of its own.
//
// Outside of the synctest bubble of its timer, Update panics.
func (m *Map[K, V]) Update(key K, f func(value V) V) (V, bool) {
	checkFunc("Update", f == nil)
	return m.update(key, (*item[K, V]).alive, func(s *shard[K, V], u *update, value V) (V, bool) {
		return s.storeUpdate(key, u, f(value))
	})
}

// RemoveIf calls f once with the value of a key, if the key is present. If f returns true, RemoveIf removes the key,
// and returns the value and true. Then expired is not called for the value. Otherwise RemoveIf returns the zero value
// and false.
//
// RemoveIf is one step. It waits for other calls of the same key, and f may call what the f of Update may. If the key
// expires or is removed meanwhile, or the Map is closed, RemoveIf removes nothing and returns false. If Set replaces
// the value meanwhile, the new value stays. Then RemoveIf returns the result for the old value, as if the call had come
// before. After Timer.Stop, RemoveIf works on the keys that were left, as Remove does.
//
// Outside of the synctest bubble of its timer, RemoveIf panics.
func (m *Map[K, V]) RemoveIf(key K, f func(value V) bool) (V, bool) {
	checkFunc("RemoveIf", f == nil)
	return m.update(key, (*item[K, V]).listed, func(s *shard[K, V], u *update, value V) (V, bool) {
		if !f(value) {
			var none V
			return none, false
		}
		return s.removeUpdated(key, u, value)
	})
}

// TouchIf calls f once with the value and the deadline of a key, if the key is present. If f returns true, TouchIf
// gives the key a new deadline, delay from then, and returns the value and true. Otherwise it returns the zero value
// and false. The deadline is a tick boundary, as that of Deadline.
//
// TouchIf is one step. It waits for other calls of the same key, and f may call what the f of Update may. If the key
// expires or is removed meanwhile, or the Map is closed, TouchIf returns false. If Set or Touch changes the key
// meanwhile, their deadline stays. Then TouchIf returns the result for the old value, as if the call had come before.
//
// Outside of the synctest bubble of its timer, TouchIf panics.
func (m *Map[K, V]) TouchIf(key K, delay time.Duration, f func(value V, deadline time.Time) bool) (value V, touched bool) {
	checkFunc("TouchIf", f == nil)
	var deadline time.Time
	there := func(it *item[K, V], now uint64) bool {
		if !it.alive(now) {
			return false
		}
		deadline = it.timeout.Deadline()
		return true
	}
	return m.update(key, there, func(s *shard[K, V], u *update, value V) (V, bool) {
		if !f(value, deadline) {
			var none V
			return none, false
		}
		return s.touchUpdated(key, u, value, m.life(delay))
	})
}

// checkFunc panics if the function of a method is nil, also if the key is not there.
func checkFunc(method string, isNil bool) {
	if isNil {
		panic("keyed: Map." + method + ": nil function")
	}
}

// update waits for the turn of a call, and calls finish with the update of the key and the value, if the key is there. The
// function finish calls f, and its results are those of update.
func (m *Map[K, V]) update(
	key K, there func(it *item[K, V], now uint64) bool, finish func(s *shard[K, V], u *update, value V) (V, bool),
) (V, bool) {
	s := m.shard(key)
	due.Root.NowHere(m.timer) // may panic: before f has run, because update may have to wait, and others for it
	u, value := s.beginUpdate(key, there)
	if u == nil {
		return value, false
	}
	defer s.endUpdate(key, u) // also after a panic or a Goexit
	return finish(s, u, value)
}

// beginUpdate waits for the turn of a call, and returns the update of the key and the value. If the key is not there, it
// returns nil.
func (s *shard[K, V]) beginUpdate(key K, there func(it *item[K, V], now uint64) bool) (u *update, value V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	find := func() *item[K, V] {
		if it := s.items[key]; it != nil && there(it, s.now()) {
			return it
		}
		return nil
	}
	it := find()
	if it == nil {
		return nil, value
	}
	if u = s.updates[key]; u == nil {
		if s.updates == nil {
			s.updates = make(map[K]*update)
		}
		u = new(update)
		s.updates[key] = u
	}
	if u.state != free || u.starving() {
		u.wait(&s.mu)
		if it = find(); it == nil {
			s.passTurn(key, u)
			return nil, value
		}
	}
	u.state, u.moved = valid, false
	return u, it.value
}

// starving reports whether a call waits that must be the next. Called with mu held.
func (u *update) starving() bool {
	return len(u.waiting) > 0 && time.Since(u.waiting[0].since) > starvingAfter
}

// wait waits in line until no f is in progress. Called with mu, the lock of the shard, held.
func (u *update) wait(mu *sync.Mutex) {
	turn := make(chan struct{}, 1)
	u.waiting = append(u.waiting, waiter{turn, time.Now()})
	for {
		mu.Unlock()
		<-turn
		mu.Lock()
		if u.state == free { // otherwise a newer call has gone first
			break
		}
	}
	if u.waiting = u.waiting[1:]; len(u.waiting) > 0 {
		u.waiting[0].since = time.Now()
	}
}

// endUpdate ends the turn of a call.
func (s *shard[K, V]) endUpdate(key K, u *update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.state = free
	s.passTurn(key, u)
}

// passTurn wakes the first in line, or removes the update if no call waits. No f is in progress. Called with mu held.
func (s *shard[K, V]) passTurn(key K, u *update) {
	if len(u.waiting) == 0 {
		delete(s.updates, key)
		return
	}
	select {
	case u.waiting[0].turn <- struct{}{}:
	default: // it has yet to look after the last time
	}
}

// overtake tells the Update, TouchIf or RemoveIf that is in progress what another call has done to its key. Called with mu held.
func (s *shard[K, V]) overtake(key K, state updateState) {
	if u := s.updates[key]; u != nil && u.state == valid {
		u.state = state
	}
}

// noteMove tells the TouchIf that is in progress that another call has moved the deadline of its key. Called with mu held.
func (s *shard[K, V]) noteMove(key K) {
	if len(s.updates) == 0 { // nearly always, and faster than a look-up
		return
	}
	if u := s.updates[key]; u != nil {
		u.moved = true
	}
}

// storeUpdate stores the result of an Update, unless another call has come before. It returns what Update returns.
func (s *shard[K, V]) storeUpdate(key K, u *update, value V) (V, bool) {
	s.mu.Lock()
	defer s.unlockChanged()
	var none V
	switch u.state {
	case lost:
		return none, false
	case valid:
		it := s.items[key] // the same item as before
		s.changing.Store(it)
		if !it.alive(s.now()) {
			return none, false
		}
		it.value = value
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

// touchUpdated moves the deadline of a key, unless another call has come before. It returns what TouchIf returns.
func (s *shard[K, V]) touchUpdated(key K, u *update, value V, t term) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	touched := false
	switch it := s.items[key]; { // if the state is valid, the same item as before
	case u.state == replaced:
		touched = true
	case u.state == lost:
	case u.moved:
		touched = it.alive(s.now())
	default:
		touched = it.move(t)
	}
	if !touched {
		var none V
		value = none
	}
	return value, touched
}
