package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

const (
	dialers         = 8
	defaultPatience = 5 * time.Second
)

type dialFunc func(context.Context) (net.Conn, error)

// clients are the clients of a run. One timer holds all their heartbeats.
type clients struct {
	opts     options
	timer    *hashedwheel.Timer
	dial     dialFunc
	short    error         // why there are fewer clients than asked for, or nil
	patience time.Duration // how late the machine may be before a silent client counts as forgotten

	heartbeatFrame, dataFrame []byte

	readers sync.WaitGroup
	settled chan struct{} // has a token for each chosen client that is closed or forgotten

	sent, tooSoon, fellSilent                        atomic.Int64
	closedSilent, closedOthers, forgotten, stillOpen atomic.Int64

	mu   sync.Mutex
	all  []*client
	errs []error
}

func newClients(o options, dial dialFunc) (*clients, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(o.tick))
	if err != nil {
		return nil, err
	}
	return &clients{
		opts: o, timer: timer, dial: dial, patience: defaultPatience,
		heartbeatFrame: newFrame(heartbeat, ""),
		dataFrame:      newFrame(data, "something that the server wants to know"),
	}, nil
}

func (cs *clients) addError(err error) {
	if err != nil {
		cs.mu.Lock()
		cs.errs = append(cs.errs, err)
		cs.mu.Unlock()
	}
}

// connect makes the clients, and starts each at once. If the machine has no room
// for all, it continues with fewer. It returns an error only if there is no client
// at all. An interruption is no error.
func (cs *clients) connect(ctx context.Context) error {
	failed, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var next atomic.Int64
	var dialing sync.WaitGroup
	for range dialers {
		dialing.Go(func() {
			for failed.Err() == nil {
				id := next.Add(1)
				if id > int64(cs.opts.conns) {
					return
				}
				if err := cs.add(failed, uint64(id)); err != nil {
					fail(err)
				}
			}
		})
	}
	dialing.Wait()
	if ctx.Err() == nil {
		cs.short = context.Cause(failed)
	}
	if len(cs.all) == 0 {
		return cs.short
	}
	return nil
}

// add connects one client.
func (cs *clients) add(ctx context.Context, id uint64) error {
	began := time.Now() // the server may accept before dial returns
	conn, err := cs.dial(ctx)
	if err != nil {
		return err
	}
	c := cs.newClient(conn, began)
	cs.mu.Lock()
	cs.all = append(cs.all, c)
	cs.mu.Unlock()
	cs.readers.Go(c.read)
	return c.start(rand.New(rand.NewPCG(cs.opts.seed, id)))
}

// run makes some clients fall silent. It returns when each of these is closed or
// forgotten, or when ctx is canceled.
func (cs *clients) run(ctx context.Context) {
	o := cs.opts
	rng := rand.New(rand.NewPCG(o.seed, 0))
	n := int(math.Round(o.silent * float64(len(cs.all))))
	cs.settled = make(chan struct{}, n)
	for _, i := range rng.Perm(len(cs.all))[:n] {
		cs.all[i].choose(time.Duration(rng.Float64() * float64(o.duration)))
	}
	cs.addError(cs.sleep(ctx, o.duration))
	for range n {
		select {
		case <-cs.settled:
		case <-ctx.Done():
			return
		}
	}
}

// sleep is Timer.Sleep, except that an interruption is no error.
func (cs *clients) sleep(ctx context.Context, d time.Duration) error {
	err := cs.timer.Sleep(ctx, d)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// choose makes a client fall silent after a delay.
func (c *client) choose(delay time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != talking {
		c.settled <- struct{}{} // the server has closed it already
		return
	}
	c.chosen = true
	_, err := c.group.AfterFunc(delay, c.fallSilent)
	c.addError(err)
}

// end ends all clients. When it returns, no client writes any more.
func (cs *clients) end() {
	for _, c := range cs.all {
		c.end()
	}
	cs.readers.Wait()
}

// header prints what runs, after all clients are connected.
func (cs *clients) header(w io.Writer, connecting time.Duration) {
	o := cs.opts
	if cs.short != nil {
		fmt.Fprintf(w, "%s connections instead of %s: %v\n", commas(int64(len(cs.all))), commas(int64(o.conns)), cs.short)
	}
	fmt.Fprintf(w, "%s connections, opened in %v, heartbeat after %v of silence, limit %v, tick %v\n\n",
		commas(int64(len(cs.all))), connecting.Round(time.Millisecond), o.interval, o.limit, o.tick)
}

// A poisson is a schedule of random events. Mean is the average time between two of them.
type poisson struct {
	mean time.Duration
	rng  *rand.Rand
}

func (p poisson) Next(prev time.Time) time.Time {
	return prev.Add(time.Duration(p.rng.ExpFloat64() * float64(p.mean)))
}
