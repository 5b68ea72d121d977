package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nuid"
)

const (
	settleLimit = 60 * time.Second // for the wait until no due order is open
	readLimit   = 60 * time.Second // for reading the books at the end
)

// A fleet is what runs in this process: workers, and a shop if there are orders to place.
type fleet struct {
	opts   options
	urls   string
	name   string // no other process has it
	stderr io.Writer
	start  time.Time
	tally  tally
	shop   *shop // or nil
	client *client

	mu      sync.Mutex
	workers []*worker
	hired   int // number of workers started so far
	killed  int
}

// runFleet runs the program, with its own servers unless the options name others.
func runFleet(ctx context.Context, o options, stdout, stderr io.Writer) error {
	urls := o.url
	if urls == "" {
		dir := o.dir
		if dir == "" {
			temp, err := os.MkdirTemp("", "fleet")
			if err != nil {
				return err
			}
			defer os.RemoveAll(temp)
			dir = temp
		}
		s, err := startServers(o.servers, dir, o.listen, o.fsync)
		if err != nil {
			return err
		}
		defer s.stopAll()
		urls = s.urls()
		fmt.Fprintf(stderr, "servers at %s\n", urls)
	}
	f, err := newFleet(ctx, o, urls, stderr)
	if ctx.Err() != nil && err != nil {
		return nil // there is nothing to report yet
	}
	if err != nil {
		return err
	}
	defer f.client.close()
	defer showProgress(stderr, f)()
	if o.orders == 0 {
		<-ctx.Done()
		f.stop()
		f.printTally(stdout)
		return nil
	}
	end, err := f.run(ctx)
	if err != nil {
		return err
	}
	return f.conclude(ctx, end, stdout)
}

// newFleet connects, calls setUp, and starts the workers. Canceling ctx does not stop the workers.
func newFleet(ctx context.Context, o options, urls string, stderr io.Writer) (f *fleet, err error) {
	f = &fleet{opts: o, urls: urls, name: nuid.Next()[16:], stderr: stderr, start: time.Now()}
	c, err := dial(urls, f.name)
	if err != nil {
		return nil, err
	}
	err = setUp(ctx, c.js, o.lease, o.replicas)
	c.close()
	if err != nil {
		return nil, err
	}
	if f.client, err = connect(ctx, o, urls, f.name); err != nil {
		return nil, err
	}
	for range o.workers {
		if err := f.hire(ctx); err != nil {
			f.stop()
			f.client.close()
			return nil, err
		}
	}
	return f, nil
}

// hire starts one more worker.
func (f *fleet) hire(ctx context.Context) error {
	f.mu.Lock()
	f.hired++
	name := fmt.Sprintf("%s-w%d", f.name, f.hired)
	f.mu.Unlock()
	w, err := startWorker(ctx, f.opts, f.urls, name, &f.tally)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.workers = append(f.workers, w)
	return nil
}

// kill kills the worker that holds the most deadlines, and returns their number.
func (f *fleet) kill() (held int) {
	f.mu.Lock()
	if len(f.workers) == 0 { // the last one could not be replaced
		f.mu.Unlock()
		return 0
	}
	w := slices.MaxFunc(f.workers, func(a, b *worker) int { return a.held.Len() - b.held.Len() })
	f.workers = slices.DeleteFunc(f.workers, func(other *worker) bool { return other == w })
	f.killed++
	f.mu.Unlock()
	held = w.held.Len()
	w.kill()
	return held
}

// holding returns how many deadlines are on wheels.
func (f *fleet) holding() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.workers {
		n += w.held.Len()
	}
	return n
}

// stop ends all workers at once. The deadlines that they hold go back to the stream.
func (f *fleet) stop() {
	f.mu.Lock()
	workers := f.workers
	f.workers = nil
	f.mu.Unlock()
	var stopping sync.WaitGroup
	for _, w := range workers {
		stopping.Go(w.stop)
	}
	stopping.Wait()
}

// run places the orders and kills workers. Then it waits until all orders that are due by then have
// ended, and returns the time at which that wait began. If ctx is canceled, it returns the zero time
// at once.
func (f *fleet) run(ctx context.Context) (end time.Time, err error) {
	if f.shop, err = newShop(f.opts, f.client, f.name); err != nil {
		return end, err
	}
	running, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { f.killAll(running) })
	f.shop.serve(ctx)
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(f.start.Add(f.opts.length))):
	}
	cancel()
	others.Wait()
	f.shop.close()
	if ctx.Err() != nil {
		return end, nil
	}
	end = time.Now().Round(0)
	if f.settled(ctx, end); ctx.Err() != nil {
		return time.Time{}, nil
	}
	return end, nil
}

// killAll kills workers at random moments of the run, and starts others in their place.
func (f *fleet) killAll(ctx context.Context) {
	if f.opts.workers == 0 {
		return
	}
	for i := range f.opts.kills {
		part := (float64(i) + 0.5 + rand.Float64()) / float64(f.opts.kills+1)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(f.start.Add(time.Duration(part * float64(f.opts.length))))):
		}
		held := f.kill()
		fmt.Fprintf(f.stderr, "killed a worker that held %d deadlines\n", held)
		if err := f.hire(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(f.stderr, "fleet:", err)
		}
	}
}

// settled returns when no order that was due before end is open, or after settleLimit. In that
// case the check at the end reports the open orders.
func (f *fleet) settled(ctx context.Context, end time.Time) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		b, err := f.client.readBooks(ctx)
		if err == nil && b.overdue(end) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// conclude reads the books and prints the report. The error names what is wrong in the books. If end
// is zero, the run was interrupted, and due orders may be open.
func (f *fleet) conclude(ctx context.Context, end time.Time, stdout io.Writer) error {
	f.stop()
	if err := f.client.nc.FlushTimeout(attemptTimeout); err != nil {
		return fmt.Errorf("no report: the servers do not answer: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	b, err := f.client.readBooks(ctx)
	if err != nil {
		return err
	}
	f.print(stdout, b)
	return errors.Join(append(f.shop.problems, b.verify(f.shop.acks, end))...)
}
