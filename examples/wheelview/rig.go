package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

const (
	// maxPending keeps the memory of this program within some 200 MB, whatever the page asks for.
	maxPending = 1_000_000

	// pulse is the time between two bursts of the load. After a stall, the load makes up for maxLag
	// at most.
	pulse  = 5 * time.Millisecond
	maxLag = 100 * time.Millisecond

	// answerBy bounds when an answer comes, as a part of the delay of its timeout.
	answerBy = 0.9
)

// A rig is one timer with the load on it, from New to Shutdown.
type rig struct {
	// Immutable after newRig.
	settings wheelSettings
	timer    *hashedwheel.Timer
	answers  *hashedwheel.Timer // its tasks cancel timeouts, as answers to requests do
	start    time.Time
	number   int // of the timers that the lab has had
	ctx      context.Context
	stop     context.CancelFunc

	// Shared.
	load    atomic.Pointer[loadSettings]
	changed chan struct{} // holds a token when load has changed
	blocked atomic.Int64  // tasks that block
	early   atomic.Int64  // tasks that started before their deadline: always 0

	loading sync.WaitGroup
}

// newRig returns a rig at work.
func newRig(s wheelSettings, load loadSettings, number int) (*rig, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(s.tick()), hashedwheel.WithLevels(s.Levels),
		hashedwheel.WithWheelSize(s.Size), hashedwheel.WithMaxPending(maxPending))
	if err != nil {
		return nil, err
	}
	start := time.Now() // tick boundaries count from here, within a microsecond
	answers, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond), hashedwheel.WithLevels(3))
	if err != nil {
		return nil, err
	}
	r := &rig{settings: s, timer: timer, answers: answers, start: start, number: number, changed: make(chan struct{}, 1)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.load.Store(&load)
	r.loading.Go(r.generate)
	return r, nil
}

func (r *rig) setLoad(l loadSettings) {
	r.load.Store(&l)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// generate arms timeouts at the rate of the load until the rig is stopped.
func (r *rig) generate() {
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	alarm := time.NewTimer(pulse)
	defer alarm.Stop()
	owed, last := 0.0, time.Now()
	for {
		load := r.load.Load()
		if load.Rate > 0 {
			alarm.Reset(max(pulse, time.Second/time.Duration(load.Rate)))
		} else {
			alarm.Stop()
		}
		select {
		case <-r.ctx.Done():
			return
		case <-r.changed:
		case <-alarm.C:
		}
		now := time.Now()
		rate := float64(load.Rate)
		owed = min(owed+rate*now.Sub(last).Seconds(), rate*maxLag.Seconds()+1)
		last = now
		for ; owed >= 1 && r.ctx.Err() == nil; owed-- {
			r.request(load, rng)
		}
	}
}

// request arms the timeout of a request, and schedules its answer if it gets one.
func (r *rig) request(load *loadSettings, rng *rand.Rand) {
	delay := load.draw(rng)
	to, err := r.timer.NewTimeout(&request{r, time.Since(r.start) + delay}, delay)
	if err != nil {
		return // too many are pending; Stats counts the refused ones
	}
	if rng.Float64() < load.Canceled {
		// This fails only after close, which waits for this goroutine first.
		r.answers.NewTimeout(answer{to}, time.Duration(float64(delay)*answerBy*rng.Float64()))
	}
}

// A request is the task of a timeout. It runs if no answer came in time.
type request struct {
	rig *rig
	due time.Duration // since the start of the rig
}

func (q *request) Run(*hashedwheel.Timeout) {
	if time.Since(q.rig.start) < q.due {
		q.rig.early.Add(1)
	}
}

// An answer is a task that cancels the timeout of its request.
type answer struct{ to *hashedwheel.Timeout }

func (a answer) Run(*hashedwheel.Timeout) { a.to.Cancel() }

// block arms timeouts that are due at once, with tasks that block.
func (r *rig) block(b blockage) error {
	if now := r.blocked.Add(int64(b.Tasks)); now > maxBlocked {
		r.blocked.Add(-int64(b.Tasks))
		return &fieldError{"tasks", fmt.Sprintf("tasks is %d: then %d tasks would block, and allowed are %d", b.Tasks, now, maxBlocked)}
	}
	for i := range b.Tasks {
		_, err := r.timer.AfterFunc(0, func() {
			defer r.blocked.Add(-1)
			select {
			case <-time.After(time.Duration(b.Seconds * float64(time.Second))):
			case <-r.ctx.Done():
			}
		})
		if err != nil {
			r.blocked.Add(-int64(b.Tasks - i))
			return err
		}
	}
	return nil
}

// close ends the load and the timer, and returns its sums. Tasks that block return early.
func (r *rig) close() sums {
	r.stop()
	r.loading.Wait()
	r.answers.Shutdown(context.Background()) // its tasks do not block
	left, err := r.timer.Shutdown(context.Background())
	return sumsOf(r, len(left), err)
}
