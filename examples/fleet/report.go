package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// print prints the report.
func (f *fleet) print(w io.Writer, b *books) {
	o, s := f.opts, f.shop
	how := fmt.Sprintf("window %v, lease %v, tick %v", o.window, o.lease, o.tick)
	if !o.wheel {
		how = "no wheel"
	}
	replicas := f.client.deadlines.stream.CachedInfo().Config.Replicas // as found at the start
	fmt.Fprintf(w, "%d workers, %v to %v to pay, %s, %d replicas\n\n", o.workers, o.least, o.most, how, replicas)

	line := func(name string, n int, format string, args ...any) {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-18s %8d  ", name, n)+fmt.Sprintf(format, args...), " "))
	}
	placed := s.placed.Load()
	line("orders", len(b.orders), "%d placed in this run, %.0f a second", placed, float64(placed)/s.took.Seconds())
	line("paid", b.count(paid), "")
	line("canceled", b.count(canceled), "")
	if n := b.count(void); n > 0 {
		line("void", n, "their deadlines came before the orders could be made")
	}
	waiting := "not due yet; their deadlines are in the stream"
	if n := b.overdue(time.Now()); n > 0 { // an interrupted run does not wait for them
		waiting = fmt.Sprintf("of which %d are due; their deadlines are in the stream", n)
	}
	line("open", b.count(open), "%s", waiting)
	line("refused payments", int(s.refused.Load()), "that came after the cancellation")
	line("workers killed", f.killed, "")
	f.printTally(w)

	first, again, before := b.lateness(f.start)
	fmt.Fprintln(w, "\ncanceled late by")
	printTimes(w, "first delivery", first, time.Millisecond)
	printTimes(w, "delivered again", again, time.Millisecond)
	if len(before) > 0 {
		printTimes(w, "due before the start", before, time.Millisecond)
	}
	fmt.Fprintln(w, "deadlines withdrawn after payments, within")
	printTimes(w, "far, in the stream", s.far, time.Microsecond)
	printTimes(w, "near, on a wheel", s.near, time.Microsecond)
}

// printTally prints what the workers of this process have done, and the memory that it took.
func (f *fleet) printTally(w io.Writer) {
	t := &f.tally
	fmt.Fprintf(w, "%-18s %8d  deliveries; %d canceled an order, %d were of orders that had ended,\n%29s%d were dropped after a payment; %d signs of life, %d failures\n",
		"to the workers", t.taken.Load(), t.canceled.Load(), t.ended.Load(), "", t.hinted.Load(), t.signs.Load(), t.failed.Load())
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Fprintf(w, "%-18s %8d  MB at most, of the whole process\n", "memory", (m.Sys)>>20)
}

func printTimes(w io.Writer, name string, ds []time.Duration, unit time.Duration) {
	if len(ds) == 0 {
		fmt.Fprintf(w, "  %-20s %6d\n", name, 0)
		return
	}
	slices.Sort(ds)
	in := func(d time.Duration) string {
		return fmt.Sprintf("%8.1f %s", float64(d)/float64(unit), strings.TrimPrefix(unit.String(), "1"))
	}
	fmt.Fprintf(w, "  %-20s %6d  p50 %s  p99 %s  max %s\n", name, len(ds), in(ds[len(ds)/2]), in(ds[len(ds)*99/100]), in(ds[len(ds)-1]))
}

// lateness returns how late the orders were canceled, by the server's clock. First has the orders whose deadline
// was delivered once. Again has the orders whose deadline was delivered again, perhaps because a worker had
// died. Before has the orders that were due before start, counted from start. Orders canceled before start do
// not count.
func (b *books) lateness(start time.Time) (first, again, before []time.Duration) {
	for _, h := range b.orders {
		o := h[len(h)-1]
		switch {
		case o.State != canceled || o.stored.Before(start):
		case o.Deadline.Before(start):
			before = append(before, o.stored.Sub(start))
		case o.Delivery > 1:
			again = append(again, o.stored.Sub(o.Deadline))
		default:
			first = append(first, o.stored.Sub(o.Deadline))
		}
	}
	return first, again, before
}

// showProgress shows a line about the run on w and updates it, if w is a terminal. The function that it
// returns clears the line.
func showProgress(w io.Writer, f *fleet) (stop func()) {
	file, ok := w.(*os.File)
	if !ok {
		return func() {}
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func() {}
	}
	var shown sync.WaitGroup
	stopped := make(chan struct{})
	shown.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		const clear = "\r\x1b[K"
		for {
			select {
			case <-ticker.C:
			case <-stopped:
				fmt.Fprint(w, clear)
				return
			}
			fmt.Fprintf(w, "%s%d deadlines on wheels, %d deliveries, %d orders canceled", clear,
				f.holding(), f.tally.taken.Load(), f.tally.canceled.Load())
		}
	})
	return func() {
		close(stopped)
		shown.Wait()
	}
}
