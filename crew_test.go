package hashedwheel

// liveRunners returns how many goroutines run tasks, or are on their way to their first one.
func (c *crew[T]) liveRunners() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hands
}

// listed returns the items on the list.
func (c *crew[T]) listed() (all []T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none T
	for _, k := range c.due.chunks[c.due.head:] {
		for _, item := range k.items {
			if item != none {
				all = append(all, item)
			}
		}
	}
	return all
}
