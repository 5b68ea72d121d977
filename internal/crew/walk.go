package crew

// Due returns the number of items that wait for a runner: on the list, and in batches.
func (c *Crew[T]) Due() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = c.due.n
	var none T
	for _, rn := range c.batched {
		for _, item := range rn.slots[rn.takenOf():rn.end] {
			if item != none {
				n++
			}
		}
	}
	return n
}
