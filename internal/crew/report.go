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
	r.First, r.Waiting, r.Running, r.Starting = c.due.chunks[c.due.head].first(), c.due.n, c.live, c.starting
	r.AtLimit = c.Limit != 0 && r.Running >= c.Limit
	return r
}
