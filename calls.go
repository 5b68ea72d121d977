package hashedwheel

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/due"
)

// waitingKeys says how many keys wait, and which of their queues has the one that has waited for longest.
type waitingKeys struct {
	keys    int           // in all queues
	longest time.Duration // how long the first has waited
	limit   int           // keyed.WithConcurrency of its queue
}

// handling has the timeouts for which a call of the panic handler is in progress.
type handling struct {
	mu    sync.Mutex
	calls map[*Timeout]int // nil until the first
}

// add adds n to the number of calls for a timeout.
func (h *handling) add(to *Timeout, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = make(map[*Timeout]int)
	}
	if h.calls[to] += n; h.calls[to] == 0 {
		delete(h.calls, to)
	}
}

func (h *handling) has(to *Timeout) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[to] > 0
}

// queues has the queues in which keys of package keyed wait.
type queues struct {
	mu  sync.Mutex
	all map[due.Queue]struct{} // without those in which none wait; nil until the first
}

func (q *queues) hold(queue due.Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all == nil {
		q.all = make(map[due.Queue]struct{})
	}
	q.all[queue] = struct{}{}
}

func (q *queues) release(queue due.Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.all, queue)
}

func (q *queues) waiting() (w waitingKeys) {
	q.mu.Lock()
	all := slices.Collect(maps.Keys(q.all))
	q.mu.Unlock() // a queue has a lock of its own, which is taken first when it calls hold
	for _, queue := range all {
		keys, longest, limit := queue.Waiting()
		w.keys += keys
		if keys > 0 && longest >= w.longest {
			w.longest, w.limit = longest, limit
		}
	}
	return w
}
