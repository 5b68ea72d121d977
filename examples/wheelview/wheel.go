package main

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

const (
	tick    = 20 * time.Millisecond
	buckets = 64 // so a turn takes 1.28 s

	maxPending = 100_000
	maxShown   = 10 // the page shows as many timeouts of a bucket as dots
	maxLag     = 100 * time.Millisecond
)

// What happens to a timeout.
const (
	armed    = iota
	fired    // its task has started
	canceled // its task never starts
	blocked  // its task has started, and blocks
	released // the task that blocked has returned
)

// An event tells the page what has happened to one of the timeouts that it shows.
type event struct {
	kind, id int
	tick     int           // at which the timeout is due
	late     time.Duration // from that tick to the start of the task
}

// A wheel is a timer with a load on it.
type wheel struct {
	timer   *hashedwheel.Timer
	answers *hashedwheel.Timer // its tasks cancel timeouts, as answers to requests do
	start   time.Time          // the first tick boundary

	mu     sync.Mutex
	shown  map[int]*timeout // by id
	inside [buckets]int     // how many of them are in each bucket
	lastID int
	events []event // since the last frame
	early  int     // tasks that started before their deadline

	rate  float64 // of the load, a second
	share float64 // of the load that is canceled
	owed  float64 // timeouts of the load that are yet to be armed
	last  time.Time

	lateFrom time.Time
	late     [2]hashedwheel.Histogram // at lateFrom, and a span before
}

// newWheel returns a wheel at tick 0. Its timers start nothing until the first timeout is armed.
func newWheel() (*wheel, error) {
	start := time.Now()
	timer, err := hashedwheel.New(hashedwheel.WithTick(tick), hashedwheel.WithWheelSize(buckets),
		hashedwheel.WithMaxPending(maxPending))
	if err != nil {
		return nil, err
	}
	answers, err := hashedwheel.New(hashedwheel.WithTick(5*time.Millisecond), hashedwheel.WithLevels(2))
	if err != nil {
		return nil, err
	}
	return &wheel{timer: timer, answers: answers, start: start, shown: make(map[int]*timeout),
		last: start, lateFrom: start}, nil
}

// stop ends both timers. Tasks that block go on for a while.
func (w *wheel) stop() {
	w.answers.Stop()
	w.timer.Stop()
}

// A timeout is one of the wheel. It is its own task.
type timeout struct {
	hashedwheel.Timeout
	wheel    *wheel
	id       int // 0 if the page does not show it
	tick     int
	deadline time.Time
	blocks   time.Duration
}

// arm arms a timeout whose task blocks for a time, mostly zero. It returns the error of the library if too many
// are pending.
func (w *wheel) arm(deadline time.Time, blocks time.Duration) (*timeout, error) {
	to := &timeout{wheel: w, deadline: deadline, blocks: blocks}
	w.timer.Bind(&to.Timeout, to)
	w.mu.Lock() // so that Run does not see the timeout before the lines below have filled it in
	defer w.mu.Unlock()
	if _, err := to.ResetAt(deadline); err != nil {
		return nil, err
	}
	to.tick = int(to.Deadline().Sub(w.start) / tick)
	if bucket := to.tick % buckets; w.inside[bucket] < maxShown || blocks > 0 {
		w.lastID++
		to.id = w.lastID
		w.inside[bucket]++
		w.shown[to.id] = to
		w.events = append(w.events, event{kind: armed, id: to.id, tick: to.tick})
	}
	return to, nil
}

// armTick arms a timeout that is due at a tick, and returns its id, or 0 if it is not shown.
func (w *wheel) armTick(n int, blocks time.Duration) int {
	to, err := w.arm(w.start.Add(time.Duration(n)*tick), blocks)
	if err != nil {
		return 0
	}
	return to.id
}

// Run is called by the timer when the timeout is due.
func (to *timeout) Run(*hashedwheel.Timeout) {
	if to.blocks == 0 {
		to.wheel.ended(to, fired)
		return
	}
	to.wheel.ended(to, blocked)
	time.Sleep(to.blocks) // others run meanwhile, on other goroutines
	to.wheel.mu.Lock()
	defer to.wheel.mu.Unlock()
	to.wheel.events = append(to.wheel.events, event{kind: released, id: to.id, tick: to.tick})
}

// cancel cancels a timeout that the page shows, and reports whether it was pending.
func (w *wheel) cancel(id int) bool {
	w.mu.Lock()
	to := w.shown[id]
	w.mu.Unlock()
	return to != nil && w.answer(to)
}

// answer cancels the timeout of a request whose answer has come in time.
func (w *wheel) answer(to *timeout) bool {
	if !to.Cancel() {
		return false // its task has started, or another call has canceled it
	}
	w.ended(to, canceled)
	return true
}

func (w *wheel) ended(to *timeout, kind int) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if kind != canceled && now.Before(to.deadline) {
		w.early++
	}
	if to.id != 0 {
		w.inside[to.tick%buckets]--
		delete(w.shown, to.id)
		w.events = append(w.events, event{kind, to.id, to.tick, now.Sub(to.Deadline())})
	}
}

// work arms as many timeouts as the load has owed since the last call. After a pause it makes up for maxLag at most.
func (w *wheel) work() {
	now := time.Now()
	w.owed += w.rate * min(now.Sub(w.last), maxLag).Seconds()
	w.last = now
	for ; w.owed >= 1; w.owed-- {
		delay := time.Second/2 + rand.N(4*time.Second)
		to, err := w.arm(now.Add(delay), 0)
		if err != nil {
			continue // too many are pending, and Stats counts the refused ones
		}
		if rand.Float64() < w.share {
			// This timer has no limit and is stopped before the other one, so its error means that the wheel ends.
			w.answers.AfterFunc(rand.N(delay*9/10), func() { w.answer(to) })
		}
	}
}

// A frame is what the page draws at one moment.
type frame struct {
	now      float64 // in ticks
	stats    hashedwheel.Stats
	lateness hashedwheel.Histogram // of the last seconds
	buckets  []int                 // how many timeouts each holds; nil while none is pending
	events   []event               // since the last frame
	early    int
}

// count returns how many timeouts each bucket holds, or nil if none is pending. With one level, a timeout lies in the bucket
// of its tick, modulo their number.
func (w *wheel) count() (counts []int) {
	for _, due := range w.timer.Tasks() {
		if counts == nil {
			counts = make([]int, buckets)
		}
		counts[int(due.Sub(w.start)/tick)%buckets]++
	}
	return counts
}

// frame puts the load on the wheel, and returns what there is to see.
func (w *wheel) frame() frame {
	w.work()
	f := frame{buckets: w.count(), stats: w.timer.Stats()}
	now := time.Now()
	f.now = float64(now.Sub(w.start)) / float64(tick)
	if now.Sub(w.lateFrom) >= 2*time.Second {
		w.lateFrom, w.late = now, [2]hashedwheel.Histogram{f.stats.Lateness, w.late[0]}
	}
	f.lateness = f.stats.Lateness.Sub(w.late[1])
	w.mu.Lock()
	defer w.mu.Unlock()
	f.events, w.events, f.early = w.events, nil, w.early
	return f
}
