// Package semaphore bounds how many tasks of a kind run at the same time. What finds no permit waits in a queue, and
// holds no goroutine. It knows nothing of timeouts.
package semaphore

import "sync"

// A Set has the semaphores of one timer, and one lock for all of them. The zero Set is empty.
type Set[T comparable] struct {
	mu      sync.Mutex
	waited  map[*Semaphore[T]]struct{} // those for which items wait
	waiting int                        // items in their queues
	onWay   int                        // items that have left a queue, and whose Acquire has yet to find the permit
	left    uint64                     // how many items have left the queues
}

// A Semaphore has n permits. Each is free, or is held by a task, or by an item that has left the queue.
//
//	          Acquire                      Release of another task              Acquire
//	item -----------------> waiting -------------------------------> on its way --------+
//	   |  no permit is free                                                             v
//	   +------------------------------------------------------------------------> held: its task runs
//	      a permit is free
//
// While items wait, no permit is free: only Release frees one, and it passes the permit on if an item waits. So none waits
// for ever, and each comes in its turn.
type Semaphore[T comparable] struct {
	set *Set[T] // immutable
	n   int     // immutable

	// Guarded by the lock of the set.
	used  int // permits that are not free
	queue []waiter[T]
	left  uint64 // how many items have left the queue
}

// A Place says where an item is. Its zero value is for a new item. The lock of the set guards it.
type Place uint8

const (
	elsewhere Place = iota
	waiting
	onWay
	held
)

type waiter[T comparable] struct {
	item  T
	place *Place
}

// New returns a semaphore with n permits.
func New[T comparable](set *Set[T], n int) *Semaphore[T] { return &Semaphore[T]{set: set, n: n} }

// Acquire reports whether an item has a permit now. If it has not, it waits. It may be waiting already.
func (s *Semaphore[T]) Acquire(item T, place *Place) bool {
	set := s.set
	set.mu.Lock()
	defer set.mu.Unlock()
	switch {
	case *place == onWay:
		*place = held
		set.onWay--
		return true
	case *place == waiting:
		return false
	case s.used < s.n:
		*place = held
		s.used++
		return true
	}
	*place = waiting
	if s.queue = append(s.queue, waiter[T]{item, place}); len(s.queue) == 1 {
		if set.waited == nil {
			set.waited = make(map[*Semaphore[T]]struct{})
		}
		set.waited[s] = struct{}{}
	}
	set.waiting++
	return false
}

// Release gives the permit of an item back, if it holds one. If items wait, it passes the permit to the first of them, and
// returns that. The caller must have Acquire called again for this item, soon. Otherwise Release returns the zero T.
func (s *Semaphore[T]) Release(place *Place) (next T) {
	set := s.set
	set.mu.Lock()
	defer set.mu.Unlock()
	if *place != held {
		return next
	}
	*place = elsewhere
	if len(s.queue) == 0 {
		s.used--
		return next
	}
	first := s.queue[0]
	s.queue[0] = waiter[T]{}
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil
		delete(set.waited, s)
	}
	*first.place = onWay
	set.waiting--
	set.onWay++
	s.left++
	set.left++
	return first.item
}

// Waiting returns the number of items that wait.
func (set *Set[T]) Waiting() int {
	set.mu.Lock()
	defer set.mu.Unlock()
	return set.waiting
}

// Idle reports whether no item waits or is on its way.
func (set *Set[T]) Idle() bool {
	set.mu.Lock()
	defer set.mu.Unlock()
	return set.waiting+set.onWay == 0
}

// Left returns how many items have left the queues.
func (set *Set[T]) Left() uint64 {
	set.mu.Lock()
	defer set.mu.Unlock()
	return set.left
}

// Each calls f, without the lock, with all items that wait during the whole call, and perhaps with others, some at a time. It
// returns false when f does.
func (set *Set[T]) Each(f func(items []T) bool) bool {
	for s, end := range set.ends() {
		for at := uint64(0); at < end; {
			var items []T
			if items, at = s.some(at, end); !f(items) {
				return false
			}
		}
	}
	return true
}

// ends returns the semaphores for which items wait, each with the place in its line behind the last of them. The first item
// that ever waited had place 0.
func (set *Set[T]) ends() map[*Semaphore[T]]uint64 {
	set.mu.Lock()
	defer set.mu.Unlock()
	all := make(map[*Semaphore[T]]uint64)
	for s := range set.waited {
		all[s] = s.left + uint64(len(s.queue))
	}
	return all
}

// some returns some of the items that wait at a place from at to end, and the place at which to go on.
func (s *Semaphore[T]) some(at, end uint64) (items []T, next uint64) {
	const n = 1 << 10
	s.set.mu.Lock()
	defer s.set.mu.Unlock()
	at = max(at, s.left)
	for next = at; next < min(at+n, end); next++ {
		items = append(items, s.queue[next-s.left].item)
	}
	return items, next
}

// TakeAll empties the queues, and returns what has waited in them.
func (set *Set[T]) TakeAll() (all []T) {
	set.mu.Lock()
	defer set.mu.Unlock()
	for s := range set.waited {
		for _, w := range s.queue {
			all = append(all, w.item)
		}
		s.left += uint64(len(s.queue)) // for Each
		s.queue = nil
	}
	set.waited, set.waiting = nil, 0
	return all
}
