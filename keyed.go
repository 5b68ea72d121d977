package hashedwheel

import (
	"errors"
	"hash/maphash"
	"iter"
	"runtime"
	"sync"
	"time"
)

// A Keyed holds values by key, each until its deadline: sessions by their identity, peers by
// their address. It is a map whose entries expire, for those who have a key at hand rather than
// a Timeout. Its methods may be called by any goroutine, also from inside expired.
//
// Each generation of a key, from the Set that began it, ends exactly once: it expires, is
// replaced by the next Set, is removed, or stays behind when the timer is stopped. A key that
// is gone leaves nothing behind.
//
// The keys are spread over several maps with a lock each, so that goroutines on different cores
// seldom wait for each other. To set a known key, or to move one, allocates nothing and costs a
// look into a map and a Timeout.Reset.
type Keyed[K comparable, V any] struct {
	timer   *Timer
	expired func(key K, value V)
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
// removed, and then expired is called as the task of a timeout is. It must not be nil.
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
// The error is ErrNilTask if expired is nil, ErrStopped, or ErrTooManyPending; then nothing has
// changed. A key that does not equal itself is an error, since it could not be found again.
func (k *Keyed[K, V]) Set(key K, value V, delay time.Duration) error {
	switch {
	case k.expired == nil:
		return ErrNilTask
	case key != key:
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
	if it == nil || !it.timeout.Cancel() && it.timeout.IsExpired() {
		var none V
		return none, false
	}
	s.remove(key)
	return it.value, true
}

// Len returns the number of keys.
func (k *Keyed[K, V]) Len() (n int) {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		n += len(s.items)
		s.mu.Unlock()
	}
	return n
}

// All ranges over the keys and values. Those that are set or end meanwhile may be among them or
// not, and none comes twice. The loop may use the Keyed itself. It takes the memory of a part of
// the keys.
func (k *Keyed[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		type pair struct {
			key   K
			value V
		}
		var pairs []pair
		for i := range k.shards {
			s := &k.shards[i]
			s.mu.Lock()
			for key, it := range s.items {
				pairs = append(pairs, pair{key, it.value})
			}
			s.mu.Unlock()
			for _, p := range pairs {
				if !yield(p.key, p.value) {
					return
				}
			}
			pairs = pairs[:0]
		}
	}
}

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
	k.expired(it.key, value)
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
