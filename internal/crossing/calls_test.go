package crossing

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

const maxDelay = 5 * time.Millisecond

func randomDelay(random func(n int) int) time.Duration {
	return time.Duration(random(int(maxDelay))) - maxDelay/10
}

// now returns the time since base.
func (w *world) now() int64 { return int64(time.Since(w.base)) }

// shift returns how far the wall clock has moved against the monotonic clock since base. On js/wasm the wall clock has
// steps of a millisecond, so this changes all the time.
func (w *world) shift() int64 {
	now := time.Now()
	return int64(now.Round(0).Sub(w.base.Round(0)) - now.Sub(w.base))
}

// user is called in each piece of user code. Often it uses the timer. Inside says that Shutdown waits for the caller.
// Own is the subject whose code it is, or nil.
func (w *world) user(inside bool, own *subject) {
	if rand.IntN(3) == 0 {
		w.act(rand.IntN, inside, own)
	}
}

// task is called in each task, which must not start before notUntil. Ran counts its runs.
func (w *world) task(notUntil int64, ran *atomic.Int64, own *subject) {
	if w.over.Load() {
		w.errorf("a task has started after Shutdown")
	}
	if early := notUntil - w.now(); early > 0 {
		w.errorf("a task has started %v too early", time.Duration(early))
	}
	if n := w.running.Add(1); w.limit > 0 && n > int64(w.limit) {
		w.errorf("%d tasks run at once", n)
	}
	defer w.running.Add(-1)
	ran.Add(1)
	w.user(true, own)
	w.misbehave()
}

// misbehave seldom panics, exits or blocks.
func (w *world) misbehave() {
	switch rand.IntN(30) {
	case 0:
		w.panic()
	case 1:
		runtime.Goexit()
	case 2:
		time.Sleep(rand.N(time.Millisecond))
	}
}

// act makes one call, chosen at random. It prefers the caller's own subject, if there is one.
func (w *world) act(random func(n int) int, inside bool, own *subject) {
	w.acting.Add(1)
	defer w.acting.Add(-1)
	if w.quit.Load() {
		return
	}
	s := w.shared[random(len(w.shared))].Load()
	if own != nil && own.to.Load() != nil && random(2) == 0 {
		s = own
	}
	switch op := random(24); {
	case s == nil || op < 6:
		w.arm(random)
	case op < 9:
		s.use(s.cancel)
	case op < 13:
		s.use(s.reset)
	case op == 13:
		s.use(s.wait)
	case op == 14 && random(20) == 0:
		group := w.group.Swap(hashedwheel.NewGroup(w.timer))
		w.groupCanceled.Add(int64(group.Close()))
		if _, err := group.NewTimeout(&subject{w: w}, 0); err == nil || group.Len() > 0 {
			w.errorf("a closed group has %d timeouts, and arming one returns %v", group.Len(), err)
		}
	case op == 14 && random(20) == 0:
		w.groupCanceled.Add(int64(w.group.Load().Cancel()))
	case op == 15:
		st, pending := w.timer.Stats(), w.timer.Pending()
		if most := max(st.Pending, pending); min(st.Pending, pending, st.Running) < 0 || w.most > 0 && most > w.most {
			w.errorf("%d pending: %+v", pending, st)
		}
		if to := s.to.Load(); to.Timer() != w.timer || to.Deadline().Before(w.base) || to.String() == "" {
			w.errorf("%v", to)
		}
		for range w.timer.Tasks() {
			if random(100) == 0 {
				break
			}
		}
	case op == 16 && w.mayStop.Load() && random(10) == 0:
		w.takeBack(w.timer.Stop())
	case op == 16 && w.mayStop.Load() && random(10) == 0:
		_ = w.shutdown(time.Millisecond, inside)
	case w.exact:
	case op < 20:
		w.useKeyed(random)
	case op < 22:
		w.sleep(random)
	}
}

// shutdown calls Shutdown, and checks what it promises.
func (w *world) shutdown(patience time.Duration, inside bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	left, err := w.timer.Shutdown(ctx)
	w.takeBack(left)
	if err == nil {
		w.over.Store(true)
		notices := w.toTell.Load() // also of Cancels that overlapped
		if n, told := w.running.Load(), w.told.Load(); inside || n > 0 || told < notices {
			w.errorf("Shutdown has returned: in a task %v, %d tasks, notices %d of %d", inside, n, told, notices)
		}
	}
	return err
}

// takeBack notes the timeouts that Stop or Shutdown has returned.
func (w *world) takeBack(left []*hashedwheel.Timeout) {
	for _, to := range left {
		if _, err := to.Reset(0); to.IsExpired() || err != hashedwheel.ErrStopped {
			w.errorf("returned by Stop: %v, %v", to, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.returned = append(w.returned, left...)
}

// refuse checks that a call may fail with this error, and counts it.
func (w *world) refuse(err error, member bool) {
	switch {
	case err == hashedwheel.ErrGroupClosed && member: // does not count as rejected
	case err == hashedwheel.ErrStopped && w.timer.IsStopped(), err == hashedwheel.ErrTooManyPending && w.most > 0:
		w.refused.Add(1)
	default:
		w.errorf("refused: %v", err)
	}
}

// sleep calls Sleep, or waits with package clock. Neither is early, and a clock loses nothing when the timer is stopped.
func (w *world) sleep(random func(n int) int) {
	start, d := time.Now(), time.Duration(1+random(1500))*time.Microsecond
	switch random(6) {
	case 0:
		w.clock.Sleep(d)
		w.notBefore("clock.Sleep", start, d)
	case 1:
		timer := w.clock.NewTimer(time.Hour)
		if !timer.Reset(d) || random(2) == 0 && !timer.Stop() {
			w.errorf("clock: a timer from which nothing was received is not active")
		}
		timer.Reset(d)
		<-timer.C
		w.notBefore("clock.NewTimer", start, d)
	case 2:
		ticker := w.clock.NewTicker(d)
		defer ticker.Stop()
		<-ticker.C
		<-ticker.C
		w.notBefore("clock.NewTicker", start, 2*d)
	case 3:
		w.funcs.Add(1)
		timer := w.clock.AfterFunc(d, func() {
			defer w.funcs.Done()
			w.notBefore("clock.AfterFunc", start, d)
			w.user(false, nil)
		})
		if random(2) == 0 && timer.Stop() {
			w.funcs.Done()
		}
	default:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random(2000))*time.Microsecond)
		defer cancel()
		if err := w.timer.Sleep(ctx, d); err == nil {
			w.notBefore("Sleep", start, d)
		} else if err != context.DeadlineExceeded {
			w.refuse(err, false)
		}
	}
}

func (w *world) notBefore(what string, start time.Time, d time.Duration) {
	if spent := time.Since(start); spent < d {
		w.errorf("%s: %v instead of %v", what, spent, d)
	}
}

// An entry is a value of the Map. Each is set once.
type entry struct {
	notUntil int64
	expired  atomic.Int64
	removed  atomic.Bool
}

// useKeyed makes one call of the Map.
func (w *world) useKeyed(random func(n int) int) {
	key, delay := random(16), randomDelay(random)
	switch random(7) {
	case 0:
		w.keyed.Touch(key, maxDelay) // never to an earlier deadline
	case 6:
		later := func(_ *entry, deadline time.Time) bool { return deadline.Before(time.Now().Add(maxDelay)) }
		if random(2) == 0 {
			w.keyed.TouchIf(key, maxDelay, later)
		} else {
			w.keyed.TouchAt(key, time.Now().Add(maxDelay))
		}
	case 1:
		w.keyed.Get(key)
	case 2:
		if e, ok := w.keyed.Remove(key); ok && e.removed.Swap(true) {
			w.errorf("key %d was removed twice", key)
		}
	case 3:
		if random(5) == 0 {
			w.keyed.Clear()
		}
	default:
		e := &entry{notUntil: w.now() + int64(delay)}
		w.mu.Lock()
		w.entries = append(w.entries, e)
		w.mu.Unlock()
		set := w.keyed.Set
		switch random(3) {
		case 0:
			set = func(key int, e *entry, delay time.Duration) error {
				_, _, err := w.keyed.GetOrSet(key, e, delay)
				return err
			}
		case 1:
			set = func(key int, e *entry, delay time.Duration) error {
				return w.keyed.SetAt(key, e, time.Now().Add(delay))
			}
		}
		if err := set(key, e, delay); err != nil {
			w.refuse(err, false)
		}
	}
}

// expire is called when a key expires.
func (w *world) expire(_ int, e *entry) { w.task(e.notUntil, &e.expired, nil) }

// A subject is a task, and its schedule if it has one. It is the ledger of its timeout.
//
// If it is owned, goroutines take turns to arm, reset and cancel the timeout. So the test knows the deadline of each
// run. Otherwise all goroutines race freely, and only the sums must agree.
type subject struct {
	w        *world
	to       atomic.Pointer[hashedwheel.Timeout]
	embedded hashedwheel.Timeout
	kind     int           // how it is armed
	repeats  bool          // it is armed again after each run
	period   time.Duration // from one run to the next
	tells    bool          // its task is a Canceler
	member   bool          // of a group
	owned    bool

	turn     sync.Mutex   // held by the goroutine that uses an owned subject
	notUntil atomic.Int64 // no run starts before
	byWall   atomic.Bool  // notUntil is by the wall clock
	unknown  atomic.Bool  // notUntil no longer counts, because goroutines have raced
	asked    atomic.Int64 // calls of Next
	running  atomic.Int64 // runs in progress

	armed    atomic.Int64 // by a call, not by the run before
	ran      atomic.Int64
	canceled atomic.Int64 // Cancel has returned true
	returned atomic.Int64 // by Stop
	told     atomic.Int64
	endings  atomic.Int64 // calls of Next that may have ended the schedule
}

// A teller is a subject whose task is a Canceler.
type teller struct{ *subject }

func (s teller) Canceled(*hashedwheel.Timeout) {
	if s.w.over.Load() {
		s.w.errorf("a Canceler is notified after Shutdown")
	}
	s.told.Add(1)
	s.w.told.Add(1)
	s.w.user(true, s.subject)
	s.w.misbehave()
}

// A scheduler is a Timer or a Group.
type scheduler interface {
	NewTimeout(task hashedwheel.Task, delay time.Duration) (*hashedwheel.Timeout, error)
	AfterFunc(delay time.Duration, f func()) (*hashedwheel.Timeout, error)
	Schedule(task hashedwheel.Task, schedule hashedwheel.Schedule) (*hashedwheel.Timeout, error)
}

// The kinds of subjects. Groups have no method for the first two.
const (
	atDeadline = iota
	embedded
	plain
	function
	fixedRate
	fixedDelay
	scheduled
	kinds
)

// arm makes a subject, arms it, and lets all goroutines know it.
func (w *world) arm(random func(n int) int) {
	delay := randomDelay(random)
	if random(20) == 0 {
		delay = time.Hour
	}
	s := &subject{w: w, kind: random(kinds), period: time.Duration(1+random(5000)) * time.Microsecond}
	s.repeats = s.kind >= fixedRate
	s.tells = s.kind != function && random(2) == 0
	s.member = s.kind >= plain && s.kind != fixedRate && s.kind != fixedDelay && random(3) == 0
	s.owned = !s.member && random(2) == 0
	on, task := scheduler(w.timer), hashedwheel.Task(s)
	if s.member {
		on = w.group.Load()
	}
	if s.tells {
		task = teller{s}
	}
	w.mu.Lock()
	w.subjects = append(w.subjects, s) // even if it is refused, because then it must not run
	w.mu.Unlock()
	s.notUntil.Store(w.now() + int64(delay))
	to, err := &s.embedded, error(nil)
	switch s.kind {
	case atDeadline:
		to, err = w.timer.NewTimeoutAt(task, time.Now().Add(delay))
	case embedded:
		w.timer.Bind(to, task)
		_, err = to.Reset(delay)
	case plain:
		to, err = on.NewTimeout(task, delay)
	case function:
		to, err = on.AfterFunc(delay, s.run)
	case fixedRate:
		to, err = w.timer.ScheduleAtFixedRate(task, delay, s.period)
	case fixedDelay:
		to, err = w.timer.ScheduleWithFixedDelay(task, delay, s.period)
	default:
		to, err = on.Schedule(task, s)
	}
	if err != nil {
		w.refuse(err, s.member)
		return
	}
	s.armed.Add(1)
	s.to.Store(to)
	if old := w.shared[random(len(w.shared))].Swap(s); old != nil && old.repeats {
		old.use(old.cancel) // so that there are few
	}
}

// Run is the task, with its handle.
func (s *subject) Run(to *hashedwheel.Timeout) {
	if known := s.to.Load(); known != nil && known != to {
		s.w.errorf("the task of %v was run with %v", known, to)
	}
	s.run()
}

// run is the task.
func (s *subject) run() {
	notUntil := s.notUntil.Load()
	if s.byWall.Load() {
		notUntil -= s.w.shift()
	}
	if s.unknown.Load() {
		notUntil = 0
	}
	if s.running.Add(1) > 1 && s.repeats {
		s.w.errorf("a repeating task overlaps with itself")
	}
	defer func() {
		switch s.kind {
		case fixedRate:
			s.notUntil.Add(int64(s.period))
		case fixedDelay:
			s.notUntil.Store(s.w.now() + int64(s.period))
		}
		s.running.Add(-1)
	}()
	s.w.task(notUntil, &s.ran, s)
}

// Next is the schedule. The first call is made by the goroutine that arms the timeout.
func (s *subject) Next(prev time.Time) time.Time {
	s.w.user(false, s)
	again := s.asked.Add(1) > 1
	if to := s.to.Load(); again && to != nil && rand.IntN(4) == 0 { // WaitRunning would wait for this call
		ctx, cancel := context.WithTimeout(s.w.t.Context(), 100*time.Microsecond)
		if to.WaitRunning(ctx) == nil {
			s.w.errorf("WaitRunning inside Next has not waited for its context")
		}
		cancel()
	}
	if again && rand.IntN(8) == 0 {
		s.endings.Add(1)
		switch rand.IntN(3) {
		case 0:
			s.w.panic()
		case 1:
			runtime.Goexit()
		}
		return time.Time{}
	}
	next := prev.Add(s.period)
	s.byWall.Store(next == next.Round(0)) // no monotonic reading
	s.notUntil.Store(int64(next.Sub(s.w.base)))
	return next
}

// use calls f with the timeout and whether it has ended. It does not wait until another call is done with an owned
// subject, because that call may be further up on the same stack.
func (s *subject) use(f func(to *hashedwheel.Timeout, ended bool)) {
	if s.owned {
		if !s.turn.TryLock() {
			return
		}
		defer s.turn.Unlock()
	}
	to := s.to.Load()
	f(to, to.IsExpired() || to.IsCanceled())
}

func (s *subject) cancel(to *hashedwheel.Timeout, _ bool) {
	if to.Cancel() {
		s.canceled.Add(1)
		if s.tells && !s.w.timer.IsStopped() { // otherwise Stop may have returned it, and have told it
			s.w.toTell.Add(1)
		}
	}
}

// wait calls WaitRunning. If an owned timeout has ended, its task does not run after that.
func (s *subject) wait(to *hashedwheel.Timeout, ended bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := to.WaitRunning(ctx); err == nil && s.owned && ended && s.running.Load() > 0 {
		s.w.errorf("WaitRunning has returned while the task runs: %v", to)
	}
}

// reset calls Reset, ResetAt or Move.
func (s *subject) reset(to *hashedwheel.Timeout, ended bool) {
	delay, now := randomDelay(rand.IntN), time.Now()
	at := int64(now.Add(delay).Sub(s.w.base))
	switch {
	case !s.owned || s.repeats:
		s.unknown.Store(true)
	case ended && s.ran.Load()+s.canceled.Load() < s.armed.Load():
		return // a run is about to start, which would take the new deadline for its own
	case ended || at < s.notUntil.Load():
		s.notUntil.Store(at) // if it is pending, the next run may have either deadline
	}
	var active bool
	var err error
	switch rand.IntN(3) {
	case 0:
		active, err = to.Reset(delay)
	case 1:
		active, err = to.ResetAt(now.Add(delay))
	default:
		if active = to.Move(delay); !active {
			return
		}
	}
	switch {
	case err != nil:
		s.w.refuse(err, s.member)
	case active:
		if s.ran.Load()+s.canceled.Load() == s.armed.Load()-1 { // no earlier run is about to start
			s.notUntil.Store(at)
		}
	default:
		s.armed.Add(1)
	}
}

// check checks that each arming has ended once. Only a teller knows how often a group has canceled it.
func (s *subject) check() {
	armed, ran, told := s.armed.Load(), s.ran.Load(), s.told.Load()
	ended := s.canceled.Load() + s.returned.Load()
	ok := !s.tells || told == ended || told > ended && s.member
	if s.tells {
		ended = told
	} else if s.member {
		return
	}
	if left := armed - ended; s.repeats {
		ok = ok && left >= 0 && left <= s.endings.Load()
	} else {
		ok = ok && left == ran
	}
	if !ok {
		s.w.errorf("kind %d, a member %v: armed %d, ran %d, canceled %d, returned %d, told %d, schedule ended up to %d times",
			s.kind, s.member, armed, ran, s.canceled.Load(), s.returned.Load(), told, s.endings.Load())
	}
}
