package pool

// A Report says what waits in a pool, and what for.
type Report[T comparable] struct {
	First    T    // the first item that waits; the zero T if none does
	Waiting  int  // items on the list, also stale ones
	Running  int  // tasks in progress
	AtLimit  bool // as many tasks as Limit allows are in progress
	Starting int  // goroutines, or functions of an executor, that are on their way to their first item
}

// Report returns a report, whose First is the first item for which stale returns false. If there is none, the report is
// empty. The function stale must not block.
func (p *Pool[T]) Report(stale func(item T) bool) (r Report[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var none T
	if r.First = p.list.firstWhere(func(item T) bool { return !stale(item) }); r.First == none {
		return r
	}
	r.Waiting, r.Running, r.Starting = p.list.n, len(p.runners), int(p.starting.Load())
	r.AtLimit = p.Limit != 0 && r.Running >= p.Limit
	return r
}
