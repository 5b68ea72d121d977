// Package keyed has a map whose entries expire by a [hashedwheel.Timer]. Use it where a program has a key
// rather than a Timeout. The leases of a registry and the sessions of users are examples.
//
//	sessions := keyed.New(timer, func(id string, s *Session) { s.Close() })
//	...
//	err := sessions.Set(id, s, 30*time.Minute)
//	...
//	s, ok := sessions.Touch(id, 30*time.Minute) // the user was active
//
// A Map is not a cache: it has no limit of its size, and loads nothing. For that see github.com/maypok86/otter. A Map that
// the program drops stays in memory until its keys have expired, unless Clear or Close removes them.
//
// A program may have a map of its own with the same keys, and a lock for it. Then expired must check, with that lock held,
// that the entry there is still the one that has expired. The program may have set the key again meanwhile.
package keyed

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"math/bits"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/due"
)

// The life of an item
//
// An item is a key and a value in the map of its shard. Its timeout says whether it is alive:
//
//	        Set, Touch
//	          +---+
//	 Set      |   v     its boundary        the timer starts its task
//	-----> pending ------------------> due ------------------> expired: the task removes it, and calls expired
//	          |                         |
//	          |  Remove, Clear, Close   |  Close
//	          +-------------------------+--------------------> canceled: removed by the same call
//	          |  Timer.Stop             |  Timer.Stop
//	          +-------------------------+--------------------> left: stays in the map, until it is removed, or
//	                                                           until the caller of Stop runs the task
//
// An item is alive if and only if its timeout is pending and not due. It is due when its tick boundary has passed by the
// clock. Its task may start much later, because of a limit of the timer or of the map, an executor or a task that hangs, or
// because the worker of the timer is late. Meanwhile calls treat the key as gone. An item that is due and waits stays in the
// map, so that it is found after Stop. Set may put a new item in its place. close.go says how Close finds the old one.
//
// Each method reads the clock after it has taken the lock, and acts as of that time. If its goroutine is stopped then, and
// goes on after the boundary, the call still counts as before it. No other call of the key can have come in between.
//
// Each method except Update, TouchIf and RemoveIf (update.go) holds the lock of the shard from its look-up in the map to its
// last change. The timer ends timeouts without the lock, and the task does not wait for it (see below). But while an item is
// in the map, its timeout ends only once:
//
//   - Only add arms a timeout that is not pending, and its item is not in the map then. Set and Touch use
//     Timeout.Move or due.Access.MoveAt, which fail if the timeout has ended.
//   - A user gets a timeout only from Stop or in a panic handler. After Stop, Reset fails. In a panic handler, Run has
//     claimed the item. So a Reset there has no effect on the Map, because methods treat a claimed item as gone.
//
// So a method that finds an ended timeout may rely on that until it unlocks. If it finds the item alive, the timeout may
// end at any moment, and Move or Cancel decides:
//
//   - If Move comes first, the task does not start before the new deadline, and Stop returns the timeout
//     later. If Cancel comes first, the task never starts.
//   - If the timer comes first, the method treats the key as gone. The task calls expired, and the key is removed before or
//     after that. Meanwhile Set may put a new item in the place of the old one, and Clear may drop it. So the
//     key is removed only if the item of the task is still there.
//   - If only the boundary comes first, after the method has read the clock, Move or Cancel succeeds. No other call notices,
//     because it needs the lock.
//
// Each value has one end, because its item is claimed once. Run claims it, and so do Close, Remove and Clear. Only the first
// claim succeeds. An item is also claimed until add has stored its key and value. So a timeout that add has armed before it
// panicked expires nothing.
//
// Add may use an item again that Remove has taken out of the map, or that could not be armed. Then Cancel has ended its
// timeout, or it was never armed. So its task does not start, and no one outside of the Map knows its timeout. An item is
// not used again if its timeout has expired, or if Stop has ended it.
//
// The caller of Stop has the timeouts that were left, and may run their tasks at any time. Such a run expires the value.
// Add does not replace an item that Stop has ended. A loop over Timer.Tasks has tasks too, and may keep them until the item
// is removed or used again. So a Run before the timeout has expired takes the lock, and looks whether Stop has left the item.
//
// Where very many keys expire at once, tasks must not wait for the lock. Otherwise the timer would take them for tasks that
// block, and give each a goroutine. So after the timeout has expired, Run goes on without the lock:
//
//   - Before a method arms or moves a timeout, or looks whether an item is alive to replace its value, it puts the item into
//     shard.changing. When the method unlocks, it empties shard.changing. If Run finds its item there, it waits for the
//     lock. A method that comes later finds the item ended. So Run sees the last value.
//   - Run leaves its item on a stack, and calls expired. Then it takes out what is on the stack. If another task of the
//     shard is about to do that, Run leaves it to that one. So at most one task waits for the lock to do so.

// A Map is a map whose entries expire. Any goroutine may call its methods, also from inside the function that is called
// when a key expires. Each value has one end: it expires, is replaced, is removed, is left when the timer is stopped,
// or is returned by Close.
//
// A key expires at the first tick boundary at or after the end of its life. Until then calls find the key, up to a tick
// longer than the delay says. From then on no call finds the key. Only the call of expired may come later: while tasks
// of the timer wait for WithMaxConcurrency, for an executor or for a task that hangs, while the call waits for
// WithConcurrency, or while the timer is late because the process was stopped.
//
// After [hashedwheel.Timer.Stop] the timer expires no key. Get, Deadline, Update, Touch, TouchAt and TouchIf find nothing.
// Set, SetAt and GetOrSet return hashedwheel.ErrStopped. What Stop has left stays in the Map: the keys that had not
// expired, and those for which expired was still to be called. Len, All, Remove, RemoveIf, Clear and Close work on these
// keys, so that a program can release what they hold.
//
// Stop also returns the timeout of each such key. To expire a key after Stop, run the task of its timeout. A key may
// have been set again before expired was called for its old value. Then only Close, and the task of the timeout that
// Stop has returned, have the old value.
//
// Methods of the zero Map panic. Make a Map with New.
//
// Each key counts as one timeout in Stats and for WithMaxPending, until expired is about to be called. A key takes 115
// to 135 bytes if keys and values are of type int. Set and Touch of a key that is present allocate nothing, except when
// the deadline becomes earlier.
type Map[K comparable, V any] struct {
	timer   *hashedwheel.Timer
	expired func(key K, value V) // may be nil
	limit   *limit[K, V]         // of calls of expired; nil if there is none
	jitter  float64
	seed    maphash.Seed
	shards  []shard[K, V]
	closing sync.Mutex // held by Close, so that a second one waits until the first has all entries
}

// shardsPerProc is so large because a goroutine may lose its processor while it holds the lock of a shard. Then only a few
// keys wait for it.
const shardsPerProc = 32

// A shard holds some of the keys. So goroutines wait for each other only if their keys are in the same shard.
type shard[K comparable, V any] struct {
	owner *Map[K, V]

	mu    sync.Mutex
	items map[K]*item[K, V]
	most  int         // the most items at once since the map was made
	spare *item[K, V] // the last one that was removed, for reuse; or nil

	updates map[K]*update // of keys with a call of Update, TouchIf or RemoveIf; nil until the first

	overdue map[*item[K, V]]struct{} // due, and no longer in items, until the task comes; nil until the first
	closed  bool                     // by Close

	// Not guarded by mu.
	changing atomic.Pointer[item[K, V]] // the item that the holder of mu arms or changes; or nil
	leaving  atomic.Pointer[item[K, V]] // a stack of items that Run has claimed; only the holder of mu pops, and takes out
	taking   atomic.Bool                // a task takes out what is on the stack, or waits for mu to do so

	_ [64]byte // so that shards do not share a line
}

// An item is a key with its value and its timeout, and is also the task of that timeout.
type item[K comparable, V any] struct {
	timeout hashedwheel.Timeout
	shard   *shard[K, V] // never changes

	// Guarded by the shard's mu.
	key   K
	value V

	below atomic.Pointer[item[K, V]] // the next on shard.leaving, or the item itself; nil while the item is not claimed
}

// A term is how long a life lasts: a delay from now, or until a deadline, if there is one.
type term struct {
	delay    time.Duration
	deadline *time.Time // a pointer, because Set and Touch pass it on too
}

// arm arms a timeout that is not pending.
func (t term) arm(to *hashedwheel.Timeout) (err error) {
	if t.deadline == nil {
		_, err = to.Reset(t.delay)
	} else {
		_, err = to.ResetAt(*t.deadline)
	}
	return err
}

// move moves the timeout of an item of the map, and reports whether the item was alive. A panic handler may have reset the
// timeout of one that is claimed. Called with mu held.
func (it *item[K, V]) move(t term) (moved bool) {
	if t.deadline == nil {
		moved = it.timeout.Move(t.delay)
	} else {
		moved = due.Root.MoveAt(&it.timeout, *t.deadline)
	}
	return moved && it.below.Load() == nil
}

// ErrClosed is returned by Set, SetAt and GetOrSet after Close.
var ErrClosed = errors.New("keyed: the Map is closed")

var (
	errNotEqual     = errors.New("keyed: the key does not equal itself (NaN?)")
	errZeroDeadline = errors.New("keyed: the deadline is the zero Time, which elsewhere means no deadline")
)

// New returns an empty Map whose entries expire by the timer t. When a key expires, the Map removes the key, and then
// calls expired, which may be nil, in the task of its timeout. So the options of the timer for tasks hold for expired.
//
// Calls of expired share a goroutine with other callbacks. If expired locks its OS thread and does not unlock it, or
// calls debug.SetPanicOnFault, expired must end by runtime.Goexit, or do that on a goroutine of its own.
//
// New panics if t is nil, or was not made by hashedwheel.New, and if an option is wrong. The panic names the option,
// its value and what is allowed.
func New[K comparable, V any](t *hashedwheel.Timer, expired func(key K, value V), opts ...Option) *Map[K, V] {
	if t == nil {
		panic("keyed: New: nil Timer")
	}
	t.IsStopped() // panics if the timer is zero
	n := min(shardsPerProc*runtime.GOMAXPROCS(0), 256)
	n = 1 << bits.Len(uint(n-1)) // a power of two
	c := newConfig(opts)
	m := &Map[K, V]{timer: t, expired: expired, jitter: c.jitter, seed: maphash.MakeSeed(), shards: make([]shard[K, V], n)}
	if c.concurrency > 0 && expired != nil {
		m.limit = newLimit[K, V](t, c.concurrency)
	}
	for i := range m.shards {
		m.shards[i].owner = m
	}
	return m
}

// checkMade panics if New has not made the Map.
func (m *Map[K, V]) checkMade() {
	if len(m.shards) == 0 {
		panic("keyed: the Map was not made by New")
	}
}

func (m *Map[K, V]) shard(key K) *shard[K, V] {
	m.checkMade()
	return &m.shards[maphash.Comparable(m.seed, key)&uint64(len(m.shards)-1)]
}

// Set stores a value that expires after delay. If the key is present, Set replaces its value and deadline.
// It does not replace a value that has expired: expired is called for that value too.
//
// The error is hashedwheel.ErrStopped, ErrClosed, or hashedwheel.ErrTooManyPending for a key that is not present. A key
// that does not equal itself, such as NaN, is an error too. After an error nothing has changed.
func (m *Map[K, V]) Set(key K, value V, delay time.Duration) error {
	return m.set(m.shard(key), key, value, m.life(delay))
}

// SetAt is Set with a deadline instead of a delay, as in [hashedwheel.Timer.NewTimeoutAt]. WithJitter does not change
// the deadline. A deadline that has passed counts as a delay of zero. The zero Time is an error.
func (m *Map[K, V]) SetAt(key K, value V, deadline time.Time) error {
	s := m.shard(key)
	if deadline.IsZero() {
		return errZeroDeadline
	}
	return m.set(s, key, value, term{deadline: &deadline})
}

// set is Set and SetAt.
func (m *Map[K, V]) set(s *shard[K, V], key K, value V, t term) error {
	s.mu.Lock()
	defer s.unlockChanged()
	if it := s.items[key]; it != nil {
		s.changing.Store(it)
		if it.move(t) {
			it.value = value
			s.overtake(key, replaced)
			return nil
		}
	}
	return m.add(s, key, value, t)
}

// GetOrSet returns the value of a key and true, if the key is present, and leaves its deadline as it is.
// Otherwise it stores the given value, which expires after delay, and returns it and false. If several
// goroutines call GetOrSet for a new key, one of them stores its value, and all of them get it.
//
// The errors are those of Set. After an error nothing has changed, and the value is zero. After Timer.Stop no
// key counts as present, so the error is hashedwheel.ErrStopped.
func (m *Map[K, V]) GetOrSet(key K, value V, delay time.Duration) (V, bool, error) {
	s := m.shard(key)
	s.mu.Lock()
	defer s.unlockChanged()
	if it := s.items[key]; it != nil && it.alive(s.now()) {
		return it.value, true, nil
	}
	if err := m.add(s, key, value, m.life(delay)); err != nil {
		var none V
		return none, false, err
	}
	return value, false, nil
}

// unlockChanged unlocks mu for a method that may have put an item into changing, also after a panic of arm or move.
func (s *shard[K, V]) unlockChanged() {
	if s.changing.Load() != nil {
		s.changing.Store(nil)
	}
	s.mu.Unlock()
}

// add stores a new item, which may replace one that is due or has expired. Called with mu held, and before unlockChanged.
func (m *Map[K, V]) add(s *shard[K, V], key K, value V, t term) error {
	switch {
	case s.closed:
		return ErrClosed
	case key != key:
		return errNotEqual
	}
	old := s.items[key]
	if old != nil && (old.left() || old.alive(s.now())) {
		// Stop has ended the old item, or is about to: Move has failed although the item is alive. So it stays in the map.
		// Without this check, the spare item could take its place, if it is on the queue and Stop has not taken it yet.
		if old.left() {
			_ = t.arm(&old.timeout) // fails, and counts as rejected; a Move that finds Stop at work counts too
		}
		return hashedwheel.ErrStopped
	}
	it := s.spare
	if it == nil {
		it = &item[K, V]{shard: s}
		it.claim()
		m.timer.Bind(&it.timeout, it)
	}
	s.spare = nil        // before arm, which may panic outside of the bubble of the timer after it has armed the item
	s.changing.Store(it) // the task may start before the key and the value are in place
	if err := t.arm(&it.timeout); err != nil {
		s.spare = it
		return err
	}
	it.key, it.value = key, value
	it.below.Store(nil) // from here on, a task can claim the item
	s.overtake(key, lost)
	if old != nil {
		s.keepOverdue(old)
	}
	if s.items == nil {
		s.items = make(map[K]*item[K, V])
	}
	s.items[key] = it
	s.most = max(s.most, len(s.items))
	return nil
}

// Get returns the value of a key, and reports whether the key is present. After Timer.Stop, Get finds nothing.
func (m *Map[K, V]) Get(key K) (V, bool) {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.items[key]; it != nil && it.alive(s.now()) {
		return it.value, true
	}
	var none V
	return none, false
}

// Deadline returns the tick boundary at which a key expires, and reports whether the key is present.
func (m *Map[K, V]) Deadline(key K) (time.Time, bool) {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.items[key]; it != nil && it.alive(s.now()) {
		return it.timeout.Deadline(), true
	}
	return time.Time{}, false
}

// Touch returns what Get returns, and in the same step sets the deadline of the key to delay from now. So a
// returned value does not expire before that, unless its deadline is changed again. If Touch returns false,
// nothing has changed: there is no such key, or it has expired, or the timer is stopped.
func (m *Map[K, V]) Touch(key K, delay time.Duration) (V, bool) {
	return m.shard(key).touch(key, m.life(delay))
}

// TouchAt is Touch with a deadline instead of a delay. WithJitter does not change the deadline. A deadline that has
// passed counts as a delay of zero. For the zero Time, TouchAt returns false.
func (m *Map[K, V]) TouchAt(key K, deadline time.Time) (V, bool) {
	s := m.shard(key)
	if deadline.IsZero() {
		var none V
		return none, false
	}
	return s.touch(key, term{deadline: &deadline})
}

// touch is Touch and TouchAt.
func (s *shard[K, V]) touch(key K, t term) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.items[key]; it != nil && it.move(t) {
		s.noteMove(key)
		return it.value, true
	}
	var none V
	return none, false
}

// Remove removes a key and returns its value. If it returns true, the key was there and had not expired,
// and expired is not called for it. After Timer.Stop it removes a key that was left, and returns true.
//
// Outside of the synctest bubble of its timer, Remove panics if the key is there.
func (m *Map[K, V]) Remove(key K) (V, bool) {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tryRemove(key)
}

// tryRemove is Remove. Called with mu held.
func (s *shard[K, V]) tryRemove(key K) (V, bool) {
	var value V
	it := s.items[key]
	if it == nil {
		return value, false
	}
	ended, reusable := it.end(s.nowHere())
	if !ended {
		return value, false
	}
	value = it.value
	s.remove(key)
	if reusable {
		s.keep(it)
	}
	return value, true
}

// Clear removes all keys. For keys that have already expired, expired is called. A key that is set during the call is
// either removed or kept. Clear costs as much as removing each key, and locks a part of the keys at a time. Outside of
// the synctest bubble of its timer, Clear panics.
func (m *Map[K, V]) Clear() { m.clear() }

// clear is Clear. It returns how many keys there were.
func (m *Map[K, V]) clear() (n int) {
	m.checkMade()
	for i := range m.shards {
		n += m.shards[i].clear()
	}
	return n
}

// Len returns the number of keys. While tasks of the timer wait for a runner, Len looks at each key. While the timer
// itself is late, Len also counts keys that have expired meanwhile.
func (m *Map[K, V]) Len() (n int) {
	m.checkMade()
	some := due.Root.Waits(m.timer) // some keys may be due
	for i := range m.shards {
		n += m.shards[i].length(some)
	}
	return n
}

// All returns an iterator over the keys and values. A key that is set or that ends during the loop may be
// included or not. No key comes twice. The loop may call methods of the Map. The iterator copies a part of
// the keys at a time.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	m.checkMade()
	return func(yield func(K, V) bool) {
		type pair struct {
			key   K
			value V
		}
		var pairs []pair
		for i := range m.shards {
			s := &m.shards[i]
			s.mu.Lock()
			now := s.now()
			for key, it := range s.items {
				if it.listed(now) {
					pairs = append(pairs, pair{key, it.value})
				}
			}
			s.mu.Unlock()
			for _, p := range pairs {
				if !yield(p.key, p.value) {
					return
				}
			}
			clear(pairs) // so that they can be garbage collected
			pairs = pairs[:0]
		}
	}
}

// now returns the current tick of the timer. Called with mu held, so that a wait for the lock comes before the time.
func (s *shard[K, V]) now() uint64 { return due.Root.Now(s.owner.timer) }

// nowHere is now for calls that cancel a timeout. On the other side of a synctest bubble it panics, because there Cancel may
// panic after it has ended the timeout. Then the item would stay in the map.
func (s *shard[K, V]) nowHere() uint64 { return due.Root.NowHere(s.owner.timer) }

// alive reports whether an item of the map is alive at tick now. A panic handler may have reset the timeout of one that is
// claimed. Called with mu held.
func (it *item[K, V]) alive(now uint64) bool {
	return due.Root.Ahead(&it.timeout, now) && it.below.Load() == nil
}

// listed reports whether All yields an item and Len counts it: it is alive, or was left at Stop. Called with mu held.
func (it *item[K, V]) listed(now uint64) bool { return it.alive(now) || it.left() }

// left reports whether Stop has returned the timeout of an item of the map, and the item is not claimed. The caller of Stop
// may have canceled the timeout since. Called with mu held.
func (it *item[K, V]) left() bool {
	pending := it.timeout.IsPending() // before IsExpired: the task may be started in between
	return !pending && !it.timeout.IsExpired() && it.below.Load() == nil
}

// claim claims an item, and reports whether the caller is the first. Then the caller ends its value.
func (it *item[K, V]) claim() bool { return it.below.CompareAndSwap(nil, it) }

// end ends an item of the map, and reports whether it was alive or left at Stop. The caller takes it out of the map. If it was
// left, it is not reusable, because the caller of Stop may call Run. Called with mu held.
func (it *item[K, V]) end(now uint64) (ended, reusable bool) {
	// After Stop, the item is not reusable: Stop may have left it just before Cancel.
	reusable = it.alive(now) && it.timeout.Cancel() && !it.shard.owner.timer.IsStopped()
	return (reusable || it.left()) && it.claim(), reusable
}

// String tells the type of the map. It is for Tasks of the timer.
func (it *item[K, V]) String() string {
	return strings.TrimPrefix(fmt.Sprintf("%T", it.shard.owner), "*")
}

// Run is the task. It claims the item, and calls expired. If the item is claimed already, Run does nothing. The caller of Stop
// and a panic handler may call Run too. So may a loop over Timer.Tasks, but then Run does nothing before the key expires.
func (it *item[K, V]) Run(*hashedwheel.Timeout) {
	s := it.shard
	m := s.owner
	if expired := it.timeout.IsExpired(); !expired || s.changing.Load() == it {
		s.mu.Lock() // waits until the method that changes the item is over
		ended := expired || m.timer.IsStopped() && it.left()
		s.mu.Unlock()
		if !ended {
			return
		}
	}
	var claimed, calls bool
	if m.limit != nil {
		claimed, calls = m.limit.start(it)
	} else {
		claimed = it.claim()
		calls = claimed && m.expired != nil
	}
	if !claimed {
		return
	}
	s.leave(it)
	defer s.takeLeft() // also after a panic or a Goexit
	switch {
	case !calls:
	case m.limit != nil:
		m.limit.run(it)
	default:
		m.expired(it.key, it.value)
	}
}

// leave puts an item on the stack. Its task has claimed it, and calls takeLeft later.
func (s *shard[K, V]) leave(it *item[K, V]) {
	for {
		top := s.leaving.Load()
		it.below.Store(cmp.Or(top, it))
		if s.leaving.CompareAndSwap(top, it) {
			return
		}
	}
}

// chunk is how many items takeLeft first takes out while it holds the lock. A goroutine that waits for a lock spins for some
// microseconds before it sleeps.
const chunk = 8

// takeLeft takes out what is on the stack, unless another task does. Between two chunks it lets others that wait for the lock
// go first. Each chunk is twice as large as the one before, so that takeLeft ends soon.
func (s *shard[K, V]) takeLeft() {
	for s.leaving.Load() != nil && s.taking.CompareAndSwap(false, true) {
		for n := chunk; ; n *= 2 {
			s.mu.Lock()
			s.takeOut(n)
			s.mu.Unlock()
			if s.leaving.Load() == nil {
				break
			}
			runtime.Gosched()
		}
		s.taking.Store(false)
	}
}

// takeOut takes up to n items off the stack, and out of their places. Called with mu held.
func (s *shard[K, V]) takeOut(n int) {
	for it := s.leaving.Load(); it != nil && n > 0; it = s.leaving.Load() {
		below := it.below.Load()
		if below == it {
			below = nil
		}
		if !s.leaving.CompareAndSwap(it, below) {
			continue
		}
		n--
		it.below.Store(it) // while expired runs, the item does not keep others
		if s.items[it.key] == it {
			s.remove(it.key)
		} else {
			delete(s.overdue, it)
		}
	}
}

// remove removes a key. A map does not shrink by itself, so remove makes a new map when a large one has
// become nearly empty. Called with mu held.
func (s *shard[K, V]) remove(key K) {
	const small = 64
	s.overtake(key, lost)
	delete(s.items, key)
	if s.most <= small || len(s.items) > s.most/8 {
		return
	}
	items := make(map[K]*item[K, V], len(s.items))
	for key, it := range s.items {
		items[key] = it
	}
	s.items, s.most = items, len(items)
}

// keep keeps an item for reuse, without its key and value. It is not in the map, and no one has its timeout. Called
// with mu held.
func (s *shard[K, V]) keep(it *item[K, V]) {
	var key K
	var value V
	it.key, it.value = key, value
	s.spare = it
}

// keepOverdue keeps an item that has left the map before its task has come. Called with mu held.
func (s *shard[K, V]) keepOverdue(it *item[K, V]) {
	if s.owner.expired == nil {
		return // its value has ended
	}
	if s.overdue == nil {
		s.overdue = make(map[*item[K, V]]struct{})
	}
	s.overdue[it] = struct{}{}
}

// length returns the number of keys. It looks at each if some may be due.
func (s *shard[K, V]) length(some bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !some {
		s.takeOut(math.MaxInt)
		return len(s.items)
	}
	now := s.now()
	for _, it := range s.items {
		if it.listed(now) {
			n++
		}
	}
	return n
}

// clear removes all keys of the shard, and returns how many there were. Items that are due and wait stay in the map,
// because Stop may end them.
func (s *shard[K, V]) clear() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var waiting map[K]*item[K, V]
	now := s.nowHere()
	for key, it := range s.items {
		switch ended, _ := it.end(now); {
		case ended:
			s.overtake(key, lost)
			n++
		case it.timeout.IsExpired():
			s.overtake(key, lost)
			s.keepOverdue(it) // its task has been started
		default:
			if waiting == nil {
				waiting = make(map[K]*item[K, V])
			}
			waiting[key] = it
		}
	}
	s.items, s.most = waiting, len(waiting)
	return n
}
