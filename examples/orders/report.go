package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// print prints the report.
func (d *demo) print(w io.Writer, c *contents) {
	o := d.opts
	fmt.Fprintf(w, "%d customers, %v to pay, horizon %v, tick %v\n\n", o.clients, o.timeout, o.horizon, o.tick)
	line := func(name string, n int, format string, args ...any) {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-19s %7d  ", name, n)+fmt.Sprintf(format, args...), " "))
	}
	line("orders", len(c.orders), "%d acknowledged in this run", len(d.acks.created))
	line("paid", c.count(paid), "")
	line("canceled", c.count(canceled), "")
	if n := c.count(open); n > 0 {
		line("open", n, "")
	}
	line("refused payments", len(d.acks.refused), "that came after the cancellation")
	line("kills", d.kills, "")
	l := d.acks.loaded
	line("loaded at restarts", l.armed, "due within the horizon, %d of them overdue; %d due later stayed in the database", l.overdue, l.beyond)

	up, down := c.lateness(d.starts)
	fmt.Fprintln(w, "\ncanceled late by")
	printLateness(w, "due during a run", up)
	printLateness(w, "due before a restart", down)
}

func printLateness(w io.Writer, name string, ds []time.Duration) {
	if len(ds) == 0 {
		fmt.Fprintf(w, "  %-20s %6d\n", name, 0)
		return
	}
	slices.Sort(ds)
	fmt.Fprintf(w, "  %-20s %6d  p50 %6.1f ms  max %6.1f ms\n", name, len(ds), millis(ds[len(ds)/2]), millis(ds[len(ds)-1]))
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// lateness returns how late orders were canceled. In up are the orders that were due while the process that
// canceled them was running. In down are the orders that were due before that process started, counted from
// its start. The starts are ascending. Cancellations before the first start do not count.
func (c *contents) lateness(starts []time.Time) (up, down []time.Duration) {
	for _, ch := range c.trail {
		i, _ := slices.BinarySearchFunc(starts, ch.at, func(start, at time.Time) int {
			return cmp.Compare(start.UnixNano(), at.UnixNano()) // by the wall clock
		})
		if ch.to != canceled || i == 0 {
			continue
		}
		start, deadline := starts[i-1].Round(0), c.orders[ch.id].deadline
		if deadline.Before(start) {
			down = append(down, ch.at.Sub(start))
		} else {
			up = append(up, ch.at.Sub(deadline))
		}
	}
	return up, down
}

// look prints what a database holds.
func look(file string, w io.Writer) error {
	c, err := readContents(file)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%d orders: %d open, %d paid, %d canceled\n", len(c.orders), c.count(open), c.count(paid), c.count(canceled))
	const shown = 10
	if len(c.index) > 0 {
		fmt.Fprintln(w, "\nthe next due:")
		for _, e := range c.index[:min(shown, len(c.index))] {
			fmt.Fprintf(w, "  order %-8d %s\n", e.id, e.deadline.Format(stamp))
		}
	}
	if len(c.trail) > 0 {
		fmt.Fprintln(w, "\nthe last changes:")
		for _, ch := range c.trail[max(0, len(c.trail)-shown):] {
			fmt.Fprintf(w, "  %-8d order %-8d %-9v %s\n", ch.seq, ch.id, ch.to, ch.at.Format(stamp))
		}
	}
	return verify(c, newAcks(), false)
}

const stamp = "2006-01-02 15:04:05.000"
