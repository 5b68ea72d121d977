package hashedwheel

import (
	"errors"
	"hash/maphash"
	"runtime"
	"sync"
	"time"
)

// The life of an item
//
// An item is in the map of its shard from its Set on. Its timeout's word says whether its generation
// goes on, and each end is one compare-and-swap of that word:
//
//	         Set, Move, Touch
//	            +-----+
//	 Set        |     v      a runner claims it
//	------> pending -------+--------------------> expired: its task removes it, and calls expired
//	                       |   Remove, Clear
//	                       +--------------------> canceled: removed by the same call
//	                       |   Timer.Stop
//	                       +--------------------> canceled: stays in the map, without a deadline
//
// All methods hold the lock of the shard from their look into the map to their last change, and the
// task takes it before it does anything. Timeouts are claimed, and ended by Stop, without the lock. So
// there are these races:
//
//   - A runner claims the timeout while a method holds the lock. If the method's compare-and-swap comes
//     first, the runner does not start the task. Otherwise the method takes the key for gone, because
//     the task waits for the lock, and will call expired. Meanwhile Set may put a new item in its
//     place, and Clear may drop it. So the task removes the key only if its item is still there.
//   - Stop ends the timeout while a method holds the lock. Then nothing will expire: Move and Touch
//     fail, and Get, Remove and Clear still find the item.
//   - Clear takes one shard after the other. A Set that runs beside it comes before Clear has the lock,
//     and is removed, or after, and is kept.

// A Keyed holds values by key, each until its deadline: sessions by their identity, peers by
// their address. It is a map whose entries expire, for those who have a key at hand rather than
// a Timeout. Its methods may be called by any goroutine, also from inside expired.
//
// Each generation of a key, from the Set that began it, ends exactly once: it expires, is
// replaced by the next Set, is removed by Remove or Clear, or stays behind when the timer is stopped.
// A key that is gone leaves nothing behind.
//
// The keys are spread over several maps with a lock each, so that goroutines on different cores
// seldom wait for each other. To set a known key, or to move or touch one, allocates nothing and costs
// a look into a map and a Timeout.Reset.
type Keyed[K comparable, V any] struct {
	timer   *Timer
	expired func(key K, value V) // may be nil
	seed    maphash.Seed
	shards  []shard[K, V]
}

// A shard holds some of the keys.
type shard[K comparable, V any] struct {
	mu    sync.Mutex
	items map[K]*item[K, V]
	most  int // items since the map was made

	_ [64]byte // so that shards do not share a line
}

// An item is a key with its value, and the task of its own timeout. A timeout serves one item
// for ever, but generations of it as long as none expires.
type item[K comparable, V any] struct {
	timeout Timeout
	keyed   *Keyed[K, V]
	key     K
	value   V    // guarded by the shard's mu
	ended   bool // has expired; guarded by the shard's mu
}

var errNotEqual = errors.New("hashedwheel: Keyed: a key that does not equal itself, such as NaN")

// NewKeyed returns an empty Keyed whose timeouts t keeps. When a key's time has come it is
// removed, and then expired is called as the task of a timeout is. It may be nil: a cache whose entries
// just go needs no call.
func NewKeyed[K comparable, V any](t *Timer, expired func(key K, value V)) *Keyed[K, V] {
	t.checkMade()
	n := ceilPowerOfTwo(min(4*runtime.GOMAXPROCS(0), 256))
	return &Keyed[K, V]{timer: t, expired: expired, seed: maphash.MakeSeed(), shards: make([]shard[K, V], n)}
}

func (k *Keyed[K, V]) shard(key K) *shard[K, V] {
	return &k.shards[maphash.Comparable(k.seed, key)&uint64(len(k.shards)-1)]
}

// Set adds a key, or replaces value and deadline of one that is there, to expire after delay. A
// generation that has just expired is not replaced: both its own expiry and this one are told.
//
// The error is ErrStopped, or ErrTooManyPending for a key that is not there; then nothing has changed.
// A key that does not equal itself is an error, since it could not be found again.
func (k *Keyed[K, V]) Set(key K, value V, delay time.Duration) error {
	if key != key {
		return errNotEqual
	}
	long, err := k.set(key, value, delay)
	if long != nil {
		k.timer.prune(long)
	}
	return err
}

func (k *Keyed[K, V]) set(key K, value V, delay time.Duration) (long *stripe, err error) {
	s := k.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.items[key]; it != nil && it.timeout.Move(delay) {
		it.value = value
		return nil, nil
	}
	it := &item[K, V]{keyed: k, key: key, value: value}
	k.timer.Init(&it.timeout, it)
	long, err = k.timer.start(&it.timeout, k.timer.clock.dueIn(delay))
	if err != nil {
		return nil, err
	}
	// Its task may have been started by now, and waits for the lock.
	if s.items == nil {
		s.items = make(map[K]*item[K, V])
	}
	s.items[key] = it
	s.most = max(s.most, len(s.items))
	return long, nil
}

// Move gives a key a new deadline, delay from now, and reports whether it did. It did not if
// there is no such key, if it has expired, or if the timer is stopped.
func (k *Keyed[K, V]) Move(key K, delay time.Duration) bool {
	s := k.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[key]
	return it != nil && it.timeout.Move(delay)
}

// Touch is Get and Move in one step: it returns the value of a key and gives it a new deadline, delay from
// now, so that an entry that is in use does not expire. It reports whether it did. It did not if there
// is no such key, if it has expired, or if the timer is stopped. The deadline is that of the value
// returned: no Set and no expiry comes between.
func (k *Keyed[K, V]) Touch(key K, delay time.Duration) (V, bool) {
	s := k.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[key]
	if it == nil || !it.timeout.Move(delay) {
		var none V
		return none, false
	}
	return it.value, true
}

// Get returns the value of a key, and reports whether the key was there, and has not expired. What
// stayed behind when the timer was stopped is there.
func (k *Keyed[K, V]) Get(key K) (V, bool) {
	s := k.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[key]
	if it == nil || it.timeout.IsExpired() {
		var none V
		return none, false
	}
	return it.value, true
}

// Remove removes a key and returns its value. It reports whether the key was there, and then
// expired is not called for it. What stayed behind when the timer was stopped is there.
func (k *Keyed[K, V]) Remove(key K) (V, bool) {
	s := k.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[key]
	if it == nil || !it.end() {
		var none V
		return none, false
	}
	s.remove(key)
	return it.value, true
}

// end ends the generation of an item, and reports whether it had not expired. Called with mu held.
func (it *item[K, V]) end() bool { return it.timeout.Cancel() || !it.timeout.IsExpired() }

// Run is the task: the item has expired. Unless the key has been set again since, it is removed.
func (it *item[K, V]) Run(*Timeout) {
	k := it.keyed
	s := k.shard(it.key)
	s.mu.Lock()
	if it.ended { // a panic handler has reset it
		s.mu.Unlock()
		return
	}
	it.ended = true
	value := it.value
	if s.items[it.key] == it {
		s.remove(it.key)
	}
	s.mu.Unlock()
	if k.expired != nil {
		k.expired(it.key, value)
	}
}

// remove removes a key. A map does not shrink by itself: when a large one is hardly used any
// more it is made anew. Called with mu held.
func (s *shard[K, V]) remove(key K) {
	const keep = 64
	delete(s.items, key)
	if s.most <= keep || len(s.items) > s.most/8 {
		return
	}
	items := make(map[K]*item[K, V], len(s.items))
	for key, it := range s.items {
		items[key] = it
	}
	s.items, s.most = items, len(items)
}
