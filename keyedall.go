package hashedwheel

import "iter"

// Clear removes all keys that are there when it is called, and returns their number. Expired is not called
// for any of them. A key that has expired just before is not among them: its call of expired may
// still be in progress, or follow. A key that is set meanwhile is either removed or kept, with its
// value and its deadline.
//
// Clear costs as much as a Remove of each key, and locks a part of the keys at a time.
func (k *Keyed[K, V]) Clear() (n int) {
	for i := range k.shards {
		n += k.shards[i].clear()
	}
	return n
}

// clear removes all keys of the shard that have not expired, and returns their number. It also drops those
// that have, whose tasks wait for the lock.
func (s *shard[K, V]) clear() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range s.items {
		if it.end() {
			n++
		}
	}
	s.items, s.most = nil, 0
	return n
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
