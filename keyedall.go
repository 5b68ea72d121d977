package hashedwheel

import "iter"

// Clear removes all keys that are present when it is called, and returns their number. Expired is not
// called for any of them. A key that has just expired is not counted: the call of expired for it may still
// be in progress, or follow. A key that is set during the call is either removed or kept, with its value
// and its deadline.
//
// Clear costs as much as removing each key. It locks only a part of the keys at a time.
func (k *Keyed[K, V]) Clear() (n int) {
	k.checkMade()
	for i := range k.shards {
		n += k.shards[i].clear()
	}
	return n
}

// clear removes all keys of the shard, and returns how many had not expired. The tasks of the expired keys are
// waiting for the lock.
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
	k.checkMade()
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		n += len(s.items)
		s.mu.Unlock()
	}
	return n
}

// All returns an iterator over the keys and values. Keys that are set or that end during the loop may be
// included or not, and no key comes twice. The loop may call methods of the Keyed. The iterator holds a
// copy of a part of the keys at a time.
func (k *Keyed[K, V]) All() iter.Seq2[K, V] {
	k.checkMade()
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
