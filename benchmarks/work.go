package main

import (
	"strconv"
	"strings"
	"time"
)

// A workload is the same work for every peer.
type workload struct {
	name  string
	title string // {n} stands for how many timeouts
	about string
	n     [2]int // timeouts, in a complete run and in a short one
	tick  time.Duration
	far   time.Duration // the longest delay; 0: a minute
	heap  int           // bytes without pointers that are live beside the timeouts

	maxPending int // a limit of pending timeouts; takes a peer that can have one

	cancels  bool // takes a peer that can cancel
	parallel bool // on GOMAXPROCS goroutines
	million  bool // also takes the peers that are for very many pending timeouts
	kept     bool // also takes the peers that are for kept timeouts
	rearms   bool // takes a peer that can arm a timeout again
	floor    bool // measures the floor, and no peer
	exact    bool // takes a peer that can have this tick

	seconds int // the limit of time, in a complete run
	metrics []metric
	run     func(*bench)
}

// A metric is a figure of a workload. The first one is drawn.
type metric struct {
	name, unit string
	more       bool // the more the better
}

var (
	nsMetrics = []metric{
		{"wall", "ns/op", false}, {"floors", "x floor", false}, {"cpu", "ns CPU/op", false}, {"allocated", "B/op", false},
	}
	lateMetrics = []metric{{"p99", "ms", false}, {"min", "ms", false}, {"p50", "ms", false}, {"max", "ms", false}}
)

const (
	ms         = time.Millisecond
	hour       = time.Hour
	wheelsTick = 100 * ms
)

var workloads = []*workload{
	{
		name: "floor", title: "What one allocation of 48 bytes, one clock reading and two atomic operations cost",
		about: "no timeout can be cheaper by much", floor: true, tick: wheelsTick, run: runFloor, seconds: 20,
		metrics: []metric{
			{"serial", "ns", false}, {"parallel", "ns", false}, {"allocation", "ns", false},
			{"clock", "ns", false}, {"atomics", "ns", false},
		},
	},
	{
		name: "check", title: "Correctness", about: "nothing early, lost, twice, after Cancel or after Stop",
		tick: 10 * ms, run: runCheck, seconds: 20, million: true, kept: true, metrics: lateMetrics,
	},
	{
		name: "schedule-cancel-serial", title: "Schedule and cancel, one goroutine, nothing pending",
		about: "a timeout of 10 s, canceled at once", tick: wheelsTick,
		cancels: true, run: runScheduleCancel, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "schedule-cancel-parallel", title: "Schedule and cancel, a goroutine for each processor, nothing pending",
		about: "a timeout of 10 s, canceled at once", tick: wheelsTick,
		cancels: true, parallel: true, run: runScheduleCancel, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "schedule-cancel-serial-pending", title: "Schedule and cancel, one goroutine, {n} pending",
		about: "the pending ones are 10 to 60 minutes off", n: [2]int{1e6, 1e5}, tick: wheelsTick, far: hour,
		cancels: true, million: true, run: runScheduleCancel, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "schedule-cancel-parallel-pending", title: "Schedule and cancel, a goroutine for each processor, {n} pending",
		about: "the pending ones are 10 to 60 minutes off", n: [2]int{1e6, 1e5}, tick: wheelsTick, far: hour,
		cancels: true, parallel: true, million: true, run: runScheduleCancel, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "schedule-cancel-serial-heap", title: "Schedule and cancel, one goroutine, 256 MB beside it",
		about: "a timeout of 10 s, canceled at once, in a heap with 256 MB without pointers", tick: wheelsTick, heap: 256e6,
		cancels: true, run: runScheduleCancel, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "schedule-cancel-parallel-heap", title: "Schedule and cancel, a goroutine for each processor, 256 MB beside it",
		about: "a timeout of 10 s, canceled at once, in a heap with 256 MB without pointers", tick: wheelsTick, heap: 256e6,
		cancels: true, parallel: true, run: runScheduleCancel, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "schedule-cancel-parallel-limit", title: "Schedule and cancel, a goroutine for each processor, with a limit",
		about: "a timeout of 10 s, canceled at once; 1,048,576 may be pending, which is never reached", tick: wheelsTick,
		maxPending: 1 << 20, cancels: true, parallel: true, run: runScheduleCancel, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "cancel-by-other", title: "Schedule, and cancel by another goroutine, nothing else pending",
		about: "a timeout of 10 s; half of the processors schedule, and as many goroutines cancel, at least one each",
		tick:  wheelsTick, cancels: true, parallel: true, run: runCancelByOther, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "schedule", title: "Schedule only, {n} timeouts",
		about: "10 to 11 s off, none canceled", n: [2]int{1e6, 1e5}, tick: wheelsTick,
		million: true, run: runSchedule, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "reset-serial", title: "Reset, one goroutine, {n} live",
		about: "to 30 s; a peer without a reset cancels and schedules", n: [2]int{1e5, 1e4}, tick: wheelsTick,
		cancels: true, kept: true, run: runReset, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "reset-parallel", title: "Reset, a goroutine for each processor, {n} live",
		about: "to 30 s; a peer without a reset cancels and schedules", n: [2]int{1e5, 1e4}, tick: wheelsTick,
		cancels: true, parallel: true, kept: true, run: runReset, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "reuse-serial", title: "Arm and cancel {n} kept timeouts in turn, one goroutine", about: reuseAbout,
		n: [2]int{1024, 1024}, tick: wheelsTick,
		cancels: true, rearms: true, kept: true, run: runReuse, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "reuse-parallel", title: "Arm and cancel {n} kept timeouts in turn, a goroutine for each processor",
		about: reuseAbout, n: [2]int{1024, 1024}, tick: wheelsTick,
		cancels: true, parallel: true, rearms: true, kept: true, run: runReuse, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "fire", title: "Fire {n} timeouts that are due at once", about: "from the first to the last task",
		n: [2]int{1e6, 1e5}, tick: 10 * ms, million: true, run: runFire, seconds: 20,
		metrics: []metric{
			{"rate", "M tasks/s", true}, {"last", "ms after due", false}, {"cpu", "ns CPU/task", false}, {"peak", "MB", false},
		},
	},
	{
		name: "pending", title: "Memory of a pending timeout, and a garbage collection with {n} of them",
		about: "10 to 60 minutes off", n: [2]int{1e6, 1e5}, tick: wheelsTick, far: hour,
		million: true, run: runPending, seconds: 20,
		metrics: []metric{{"bytes", "B/timeout", false}, {"gc", "ms/GC", false}},
	},
	{
		name: "idle", title: "Idle, with {n} timeouts that are far off", about: "10 to 60 minutes off, a tick of 10 ms",
		n: [2]int{1e6, 1e5}, tick: 10 * ms, far: hour, million: true, run: runIdle, seconds: 20,
		metrics: []metric{{"cpu", "% of a core", false}, {"wakeups", "wake-ups/s", false}},
	},
	{
		name: "late-10ms", title: "Lateness of {n} timeouts over a second, at a tick of 10 ms",
		about: "below zero is early", n: [2]int{20000, 2000}, tick: 10 * ms,
		million: true, run: runLate, seconds: 15, metrics: lateMetrics,
	},
	{
		name: "late-1ms", title: "Lateness of {n} timeouts over a second, at a tick of 1 ms",
		about: "below zero is early", n: [2]int{20000, 2000}, tick: ms, exact: true,
		run: runLate, seconds: 15, metrics: lateMetrics,
	},
	{
		name: "rpc", title: "RPC mix: 100 to 500 ms, 99 % canceled 256 operations later",
		about: "what fires must equal what is left", tick: 10 * ms, cancels: true, parallel: true,
		run: runRPC, seconds: 30, million: true, metrics: append(nsMetrics[:len(nsMetrics):len(nsMetrics)],
			metric{"left", "left to fire", false}),
	},
	{
		name: "rpc-pooled", title: "RPC mix with calls from a sync.Pool",
		about: "as rpc, and each call holds its timeout; hashedwheel and time arm a new one for each call",
		tick:  10 * ms, cancels: true, parallel: true, rearms: true, kept: true,
		run: runRPCPooled, seconds: 30, metrics: pooledMetrics,
	},
	{
		name: "rpc-pooled-heap", title: "RPC mix with calls from a sync.Pool, 256 MB beside it",
		about: "the same in a heap with 256 MB without pointers",
		tick:  10 * ms, heap: 256e6, cancels: true, parallel: true, rearms: true, kept: true,
		run: runRPCPooled, seconds: 30, metrics: pooledMetrics,
	},
	{
		name: "blocked", title: "Lateness of {n} timeouts while the task of another one blocks",
		about: "for 2 s (0.5 s in a short run), a tick of 10 ms", n: [2]int{1000, 200}, tick: 10 * ms,
		run: runBlocked, seconds: 15, metrics: []metric{{"max", "ms", false}, {"p50", "ms", false}},
	},
	{
		name: "flood-10ms", title: "Worst lateness of a timeout of 100 ms under two busy producers, tick of 10 ms",
		about: "they schedule and cancel as fast as they can for 10 s", tick: 10 * ms, cancels: true,
		run: runFlood, seconds: 60, metrics: floodMetrics,
	},
	{
		name: "flood-100ms", title: "Worst lateness of a timeout of 100 ms under two busy producers, tick of 100 ms",
		about: "they schedule and cancel as fast as they can for 10 s", tick: 100 * ms, cancels: true, exact: true,
		run: runFlood, seconds: 60, metrics: floodMetrics,
	},
	{
		name: "storm-at-once", title: "32 goroutines schedule and cancel at once",
		about: "timeouts of 10 s, for 5 s; beside them one of 100 ms after another, whose lateness it is",
		tick:  wheelsTick, cancels: true, run: runStormAtOnce, seconds: 60, metrics: stormMetrics,
	},
	{
		name: "storm-later", title: "32 goroutines schedule, and cancel 4,096 operations later",
		about: "timeouts of 10 s, for 5 s; beside them one of 100 ms after another, whose lateness it is",
		tick:  wheelsTick, cancels: true, run: runStormLater, seconds: 60, metrics: stormMetrics,
	},
	{
		name: "storm-by-other", title: "16 goroutines schedule, and 16 others cancel",
		about: "timeouts of 10 s, for 5 s; beside them one of 100 ms after another, whose lateness it is",
		tick:  wheelsTick, cancels: true, run: runStormByOther, seconds: 60, metrics: stormMetrics,
	},
	{
		name: "storm-latency", title: "How long the calls of 32 goroutines take that schedule and cancel at once",
		about: "for 5 s, with a look at the clock before and after each call; a call that waits for a processor counts",
		tick:  wheelsTick, cancels: true, run: runStormLatency, seconds: 60, metrics: append([]metric{
			{"call-p99.9999", "µs", false}, {"call-max", "µs", false}, {"slow", "calls over 1 ms", false},
		}, stormMetrics...),
	},
}

const reuseAbout = "to 10 s; hashedwheel and time arm a new timeout each time"

var pooledMetrics = []metric{
	{"rate", "M ops/s", true}, {"cpu", "ns CPU/op", false}, {"allocated", "B/op", false}, {"left", "left to fire", false},
}

var stormMetrics = []metric{
	{"rate", "M ops/s", true}, {"cpu", "ns CPU/op", false}, {"live", "MB live heap", false}, {"peak", "MB", false},
	{"p50", "ms", false}, {"p99", "ms", false}, {"max", "ms", false},
}

var floodMetrics = []metric{{"max", "ms", false}, {"p50", "ms", false}, {"rate", "M ops/s", true}, {"peak", "MB", false}}

func findWorkload(name string) (*workload, bool) {
	for _, w := range workloads {
		if w.name == name {
			return w, true
		}
	}
	return nil, false
}

// takes reports whether there is a cell for the peer at all.
func (w *workload) takes(p peer) bool { return (!p.million || w.million) && (!p.kept || w.kept) }

// cannot says what a peer lacks for a workload, if it does.
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

// peers are those that have a cell in the workload.
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

// drawn reports whether the first metric is one to compare.
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

func (w *workload) limit(short bool) time.Duration {
	if short {
		return 3 * time.Second
	}
	return time.Duration(w.seconds) * time.Second
}
