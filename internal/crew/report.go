package crew

// A Report says what waits in a crew, and what for.
type Report[T comparable] struct {
	First    T    // the first item on the list; the zero T if nothing waits
	Waiting  int  // items on the list
	Running  int  // tasks in progress
	AtLimit  bool // as many tasks as Limit allows are in progress
	Starting int  // goroutines, or functions of an executor, that are on their way to their first item
}

// Report returns the report. Items in batches do not count: if they wait for long, the watch takes them back.
func (c *Crew[T]) Report() (r Report[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due.n == 0 {
		return r
	}
	r.First, r.Waiting, r.Running, r.Starting = c.due.first(), c.due.n, c.live, c.starting
	r.AtLimit = c.Limit != 0 && r.Running >= c.Limit
	return r
}

// first returns the first item. The list must not be empty.
func (l *list[T]) first() (item T) {
	var none T
	k := l.chunks[l.head]
	for i := k.from; item == none; i++ {
		item = k.items[i]
	}
	return item
}

// Submitting returns how many calls of submit are in progress.
func (x *Executor[T]) Submitting() int {
	tasks, _ := x.submitters.crew.Running()
	return tasks
}
