package hashedwheel

// slotsInUse returns how many slots of the limit timeouts have. It is exact at rest, and too large while
// slots are moved.
func (t *Timer) slotsInUse() int {
	t.limit.mu.Lock()
	defer t.limit.mu.Unlock()
	free := t.limit.rest.Load()
	for i := range t.queue.stripes {
		free += t.queue.stripes[i].slots.Load()
	}
	return int(t.limit.max - free)
}
