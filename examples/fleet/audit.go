package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"github.com/nats-io/nats.go/jetstream"
)

// The books are what an audit has found.
type books struct {
	count  map[state]int
	late   []time.Duration // of the cancellations in this run, by the clock of the server, in order
	faults []string
}

// audit reads the deadlines and the ends of all orders, and compares them with what the customers were told.
func (c *crowd) audit(ctx context.Context) (*books, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	store, err := deadlines.Check(ctx, c.shop.nc, storeName)
	if err != nil {
		return nil, err
	}
	b := &books{faults: store.FirstFaults, count: map[state]int{open: store.Pending + store.Running}}
	watcher, err := c.shop.ends.WatchAll(ctx, jetstream.IncludeHistory())
	if err != nil {
		return nil, err
	}
	defer watcher.Stop()
	ended := make(map[string]state)
	for e := range watcher.Updates() {
		if e == nil { // there are no more
			b.compare(ctx, c, ended)
			return b, ctx.Err()
		}
		var o order
		if err := json.Unmarshal(e.Value(), &o); err != nil {
			return nil, fmt.Errorf("order %s: %w", e.Key(), err)
		}
		late := e.Created().Sub(o.Deadline)
		switch {
		case ended[o.ID] != "":
			b.fault("order %s was %s after it was %s", o.ID, o.State, ended[o.ID])
		case o.State == canceled && late < 0:
			b.fault("order %s was canceled %v early", o.ID, -late)
		case o.State == canceled && c.told[o.ID] != "":
			b.late = append(b.late, late)
		}
		ended[o.ID] = o.State
		b.count[o.State]++
	}
	return nil, fmt.Errorf("the orders could not be read to the end: %w", ctx.Err())
}

func (b *books) compare(ctx context.Context, c *crowd, ended map[string]state) {
	slices.Sort(b.late)
	for id, as := range c.told {
		switch {
		case as != open && as != ended[id]:
			b.fault("order %s is %q, but its customer was told that it is %s", id, ended[id], as)
		case as == open && ended[id] == "":
			d, err := c.shop.deadlines.Get(ctx, id)
			if err == nil && (d.Status == deadlines.Pending || d.Status == deadlines.Running) {
				continue
			}
			// A worker may have ended the order since it was read.
			if _, missing := c.shop.ends.Get(ctx, id); missing != nil {
				b.fault("order %s has no end (%v), and its deadline is %q (%v)", id, missing, d.Status, err)
			}
		}
	}
}

func (b *books) fault(format string, args ...any) {
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

func (c *crowd) report(out io.Writer, found, left *books, killed int) error {
	row := func(name string, b *books) []any {
		return []any{name, b.count[open], b.count[paid], b.count[canceled]}
	}
	demo.Table(out, []any{"", open, paid, canceled}, row("found", found), row("left", left))
	fmt.Fprintf(out, "placed %d, workers killed %d, faults %d\n", len(c.told), killed, len(left.faults))
	if n := len(left.late); n > 0 {
		late := func(percent int) time.Duration { return left.late[(n-1)*percent/100].Round(100 * time.Microsecond) }
		fmt.Fprintf(out, "canceled late by p50 %v, p99 %v, max %v\n", late(50), late(99), late(100))
	}
	if len(left.faults) > 0 {
		return fmt.Errorf("fleet: %d faults, such as: %s", len(left.faults), left.faults[0])
	}
	return nil
}
