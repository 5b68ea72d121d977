package work

import (
	"strconv"
	"strings"
	"time"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// A Workload is the same work for every peer.
type Workload struct {
	Name    string
	Title   string // {n} stands for n
	About   string
	Metrics []Metric
	Chart   bool // there is a chart of the first metric
	Floor   bool // measures the floor, and no peer

	n    [2]int // number of timeouts or keys in a complete run and in a short one
	tick time.Duration
	heap int // bytes of other live memory, without pointers

	heapToo bool   // there is a second workload with other memory, for this library and package time
	except  string // the peer that has no cell, because another one does the same

	parallel bool // on all processors
	kept     bool // includes the peers that are only for kept timeouts
	rearms   bool // needs a peer that can arm a timeout again
	caches   bool // the peers are caches

	against string // the floor, if not that of a new timeout: see FloorMetric
	bare    bool   // hardly anything is live but the timeout, so garbage is collected as often as possible

	run func(*bench)
}

// A Metric is a figure of a workload. The first one is drawn.
type Metric struct {
	Name, Unit string
	More       bool // more is better
}

// Label distinguishes metrics of the same unit, and says which time is meant.
func (m Metric) Label() string {
	if m.Name == "wall" {
		return "wall time, "
	}
	switch m.Unit {
	case "ms", "µs", "ns":
		return m.Name + ", "
	}
	return ""
}

const (
	ms         = time.Millisecond
	wheelsTick = 100 * ms
	otherHeap  = 256e6 // bytes of other memory in the workloads that have it
)

// FloorMetric returns the metric of the floor of a peer, or "" if there is none. If the peer takes deadlines, it need not read a clock.
func (w *Workload) FloorMetric(p peers.Peer) (metric string) {
	switch {
	case w.own(), w.caches:
		return "" // the operation may do less than any floor, or it is not that of a timer
	case w.against == "fire":
		return "fire" // the least of one and of all processors
	case w.against != "" && p.Deadlines:
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

// own reports whether the workload is for this library only.
func (w *Workload) own() bool { return strings.HasPrefix(w.Name, "own-") }

// Peers returns the peers that have a cell in the workload.
func (w *Workload) Peers() (list []peers.Peer) {
	if w.Floor {
		return []peers.Peer{floorPeer}
	}
	if w.own() {
		return peers.All[:1]
	}
	if w.caches {
		return peers.Caches
	}
	for _, p := range peers.All {
		if (!p.Kept || w.kept) && (p.Rearms || !w.rearms) && p.Name != w.except && (w.heap == 0 || p.Name == "hashedwheel" || p.Name == "time") {
			list = append(list, p)
		}
	}
	return list
}

// Heading returns the title with n in it.
func (w *Workload) Heading(short bool) string {
	n := strconv.Itoa(w.size(short))
	for i := len(n) - 3; i > 0; i -= 3 {
		n = n[:i] + "," + n[i:]
	}
	return strings.ReplaceAll(w.Title, "{n}", n)
}

func (w *Workload) size(short bool) int { return pick(&bench{short: short}, w.n[0], w.n[1]) }

// limits are the time limits of a cell in a complete run and in a short one. Tests change them.
var limits = [2]time.Duration{time.Minute, 10 * time.Second}

func limit(short bool) time.Duration { return pick(&bench{short: short}, limits[0], limits[1]) }
