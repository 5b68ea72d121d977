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
// Set puts an item into the map of its shard. A generation of an item is what one Set has stored. The word
// of the item's timeout says whether the generation is still alive, and each of its possible ends is one
// compare-and-swap of that word:
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
// Each method holds the lock of the shard from its look-up in the map to its last change, and the task takes
// the lock before anything else. But runners claim timeouts, and Stop ends them, without the lock. So there
// are these races:
//
//   - A runner claims the timeout while a method holds the lock. If the method's compare-and-swap comes
//     first, the runner does not start the task. Otherwise the method treats the key as gone, because
//     the task waits for the lock, and will call expired. Meanwhile Set may replace the item by a new
//     one, and Clear may drop it. So the task removes the key only if its own item is still there.
//   - Stop ends the timeout while a method holds the lock. Then nothing will expire: Move and Touch
//     fail, and Get, Remove and Clear still find the item.
//   - Clear locks one shard after the other. If a concurrent Set gets the lock before Clear, its item is
//     removed. Otherwise its item is kept.

// A Keyed is a map whose entries expire, such as sessions by their identity, or peers by their address. Use
// it where you have a key at hand rather than a Timeout. Any goroutine may call its methods, also from
// inside the function that is called when a key expires.
//
// Each value that Set stores has exactly one end: it expires, or the next Set replaces it, or Remove or Clear
// removes it, or it stays in the map when the timer is stopped. A key that is gone leaves nothing behind.
//
// The keys are spread over several maps, each with its own lock, so that goroutines on different cores
// seldom wait for each other. Setting, moving or touching a key that is present allocates nothing. It costs
// a map look-up and a Timeout.Reset.
//
// A key takes 115 to 130 bytes if keys and values are of type int. A larger value adds the difference in size
// once, and a larger key two or three times. Both exclude what they point to, such as the bytes of a string.
//
// In the timer's Stats, and for WithMaxPending, each key is one pending timeout. A new key counts as accepted.
// While the key is present, Set, Move and Touch change no count. A key that Remove or Clear removes counts as
// canceled. Timer.Stop counts the keys that are present as returned, and returns their timeouts.
//
// Methods of the zero Keyed panic.
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
	most  int // the most items at once since the map was made

	_ [64]byte // so that shards do not share a line
}

// An item is a key with its value and its timeout, and is also the task of that timeout. A Set of a key
// that is present begins a new generation of the same item, with the same timeout.
type item[K comparable, V any] struct {
	timeout Timeout
	keyed   *Keyed[K, V]
	key     K
	value   V    // guarded by the shard's mu
	ended   bool // it has expired; guarded by the shard's mu
}

var errNotEqual = errors.New("hashedwheel: Keyed: the key does not equal itself (NaN?)")

// NewKeyed returns an empty Keyed whose entries expire by the timer t. When a key expires, it is removed,
// and then expired is called, like the task of a timeout. If no call is needed, as in a cache, expired may
// be nil.
func NewKeyed[K comparable, V any](t *Timer, expired func(key K, value V)) *Keyed[K, V] {
	if t == nil {
		panic("hashedwheel: NewKeyed: nil Timer")
	}
	t.checkMade()
	n := ceilPowerOfTwo(min(4*runtime.GOMAXPROCS(0), 256))
	return &Keyed[K, V]{timer: t, expired: expired, seed: maphash.MakeSeed(), shards: make([]shard[K, V], n)}
}

// checkMade panics if NewKeyed has not made the Keyed.
func (k *Keyed[K, V]) checkMade() {
	if len(k.shards) == 0 {
		panic("hashedwheel: the Keyed was not made by NewKeyed")
	}
}

func (k *Keyed[K, V]) shard(key K) *shard[K, V] {
	k.checkMade()
	return &k.shards[maphash.Comparable(k.seed, key)&uint64(len(k.shards)-1)]
}

// Set stores a value that expires after delay. If the key is present, Set replaces its value and its
// deadline. It does not replace a value that has just expired: in that case expired is called for that value,
// and later for the new value too.
//
// The error is ErrStopped, or ErrTooManyPending for a key that is not present. After an error nothing has
// changed. A key that does not equal itself, such as NaN, is an error, because it could not be found again.
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
	// The task may have been started by now: then it waits for the lock.
	if s.items == nil {
		s.items = make(map[K]*item[K, V])
	}
	s.items[key] = it
	s.most = max(s.most, len(s.items))
	return long, nil
}

// Move gives a key a new deadline, delay from now, and reports whether it did. It returns false if there is
// no such key, if the key has expired, or if the timer is stopped.
func (k *Keyed[K, V]) Move(key K, delay time.Duration) bool {
	s := k.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[key]
	return it != nil && it.timeout.Move(delay)
}

// Touch is Get and Move in one step, so that an entry that is in use does not expire. It returns the value
// of a key, and gives the key a new deadline, delay from now. It returns false if there is no such key, if
// the key has expired, or if the timer is stopped. No Set and no expiry comes between reading the value and
// moving the deadline.
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

// Get returns the value of a key, and reports whether the key is present and has not expired. A key expires
// at the first tick boundary at or after its deadline. Keys that were present when the timer was stopped stay
// present.
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

// Remove removes a key and returns its value. It reports whether the key was present and had not expired: if
// so, expired is not called for it. Keys that were present when the timer was stopped can still be
// removed.
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

// Run is the task. It removes the item, if it is still in the map, and calls expired.
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

// remove removes a key. A map does not shrink by itself, so remove makes a new map when a large one has
// become nearly empty. Called with mu held.
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
