package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A workload is the same work for every peer.
type workload struct {
	name  string
	title string // {n} stands for the number of timeouts
	about string
	n     [2]int // number of timeouts in a complete run and in a short one
	tick  time.Duration
	far   time.Duration // the longest delay; 0 for a minute
	heap  int           // bytes of other live memory, without pointers

	heapToo  bool     // there is a second workload with 256 MB of other memory
	heapOnly []string // the peers that have a cell in the second workload; nil for all
	only     []string // the peers that have a cell; nil for all
	except   []string // the peers that have no cell, because another peer does the same

	maxPending int // the limit of pending timeouts; needs a peer that can have one

	cancels  bool // needs a peer that can cancel
	parallel bool // on GOMAXPROCS goroutines
	million  bool // includes the peers that are only for very many pending timeouts
	kept     bool // includes the peers that are only for kept timeouts
	rearms   bool // needs a peer that can arm a timeout again
	floor    bool // measures the floor, and no peer
	exact    bool // needs a peer that can have this tick

	against string // the floor, if not that of a new timeout: see floorMetric
	bare    bool   // hardly anything is live but the timeout, so garbage is collected as often as possible

	seconds int // the time limit of a complete run
	metrics []metric
	run     func(*bench)
}

// floorMetric returns the metric of the floor of a peer. If the peer takes deadlines, it need not read a clock.
func (w *workload) floorMetric(p peer) (metric string) {
	switch {
	case w.against == "fire":
		return "fire" // the least of one and of all processors
	case w.against != "" && p.deadlines:
		metric = w.against + "-deadline"
	case w.against != "":
		metric = w.against
	case w.bare && w.heap == 0:
		metric = "new"
	default:
		metric = "large-new"
	}
	if w.parallel {
		metric += "-parallel"
	}
	return metric
}

// A metric is a figure of a workload. The first one is drawn.
type metric struct {
	name, unit string
	more       bool // more is better
}

// lateness reports whether the metric is a lateness. No other metric has this unit.
func (m metric) lateness() bool { return m.unit == "ms" }

// ceiling returns where the scale of a chart of the metric ends at the latest.
func (m metric) ceiling() float64 {
	switch {
	case m.lateness():
		return 1000
	case m.name == "call-p99.9999":
		return float64(durationEnd) / 1e3 // a histogram does not say how far above this a value is
	}
	return math.Inf(1)
}

const otherHeap = 256e6 // bytes of other memory in the workloads that have it

const (
	ms         = time.Millisecond
	hour       = time.Hour
	wheelsTick = 100 * ms
)

func findWorkload(name string) (*workload, bool) {
	for _, w := range workloads {
		if w.name == name {
			return w, true
		}
	}
	return nil, false
}

// takes reports whether the workload has a cell for the peer.
func (w *workload) takes(p peer) bool {
	return (!p.million || w.million) && (!p.kept || w.kept) &&
		(w.only == nil || slices.Contains(w.only, p.name)) && !slices.Contains(w.except, p.name)
}

// withHeap adds a second workload, with 256 MB of other memory, after each workload that asks for one.
func withHeap(list []*workload) (all []*workload) {
	for _, w := range list {
		all = append(all, w)
		if w.heapToo {
			h := *w
			h.name += "-heap"
			h.title += ", 256 MB of other memory"
			h.about += "; with 256 MB of other live memory, without pointers"
			h.heap, h.only = otherHeap, w.heapOnly
			all = append(all, &h)
		}
	}
	return all
}

// cannot says what a peer lacks for a workload, or returns "".
func (w *workload) cannot(p peer) string {
	switch {
	case w.cancels && !p.cancels:
		return "cannot: no cancel"
	case w.maxPending > 0 && !p.limits:
		return "cannot: no limit of pending timeouts"
	case w.rearms && !p.rearms:
		return "cannot: a timeout is armed only once"
	case w.exact && p.fixedTick != 0 && p.fixedTick != w.tick:
		return "cannot: its tick is " + p.fixedTick.String()
	}
	return ""
}

// peers returns the peers that have a cell in the workload.
func (w *workload) peers() []peer {
	if w.floor {
		return []peer{floorPeer}
	}
	var list []peer
	for _, p := range peers {
		if w.takes(p) {
			list = append(list, p)
		}
	}
	return list
}

// drawn reports whether the workload has a chart.
func (w *workload) drawn() bool { return !w.floor && w.name != "check" }

func (w *workload) size(short bool) int {
	if short {
		return w.n[1]
	}
	return w.n[0]
}

func (w *workload) heading(short bool) string {
	n := strconv.Itoa(w.size(short))
	if len(n) > 3 {
		n = n[:len(n)-3] + "," + n[len(n)-3:]
	}
	if len(n) > 7 {
		n = n[:len(n)-7] + "," + n[len(n)-7:]
	}
	return strings.ReplaceAll(w.title, "{n}", n)
}

func (w *workload) horizon() time.Duration { return max(w.far, time.Minute) + time.Minute }

// shortLimit is the time limit of a cell in a short run. Tests change it.
var shortLimit = 3 * time.Second

func (w *workload) limit(short bool) time.Duration {
	if short {
		return shortLimit
	}
	return time.Duration(w.seconds) * time.Second
}
