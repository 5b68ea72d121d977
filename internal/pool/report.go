package pool

// A Report says what waits in a pool, and what for.
type Report[T comparable] struct {
	First    T    // the first item on the list; the zero T if nothing waits
	Waiting  int  // items on the list
	Running  int  // tasks in progress
	AtLimit  bool // as many tasks as Limit allows are in progress
	Starting int  // goroutines, or functions of an executor, that are on their way to their first item
}

// Report returns the report. Items in batches do not count: if they wait for long, the watch takes them back.
func (p *Pool[T]) Report() (r Report[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list.n == 0 {
		return r
	}
	r.First, r.Waiting, r.Running, r.Starting = p.list.chunks[p.list.head].first(), p.list.n, len(p.runners), int(p.starting.Load())
	r.AtLimit = p.Limit != 0 && r.Running >= p.Limit
	return r
}
