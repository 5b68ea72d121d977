package work

import (
	"cmp"
	"slices"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

var (
	nsMetrics = []Metric{
		{"wall", "ns/op", false}, {"floors", "x floor", false}, {"cpu", "ns CPU/op", false},
		{"worker", "ns worker/op", false}, {"full", "M ops/s fill the worker", true}, {"allocated", "B/op", false},
	}
	cpuMetrics = nsMetrics[2:5:5]

	lateMetrics = []Metric{{"p99", "ms", false}, {"min", "ms", false}, {"p50", "ms", false}, {"max", "ms", false}}

	// firingLateness follows a first metric, which is not a lateness.
	firingLateness = []Metric{{"p50", "ms", false}, {"p99", "ms", false}, {"max", "ms", false}}

	// stormMetrics have p90 and not p99, because a run has only about 20 of these timeouts.
	stormMetrics = append(append([]Metric{{"rate", "M ops/s", true}}, cpuMetrics...), []Metric{
		{"peak", "MB", false}, {"p50", "ms", false}, {"p90", "ms", false}, {"max", "ms", false},
	}...)
)

// floorMetrics are the results of FloorMetric.
func floorMetrics() (all []Metric) {
	for _, name := range []string{"new", "large-new", "kept", "kept-deadline", "reset", "reset-deadline"} {
		all = append(all, Metric{name, "ns", false}, Metric{name + "-parallel", "ns", false})
	}
	return append(all, Metric{"fire", "ns", false})
}

const (
	pendingAbout = "a timeout of 10 s, canceled at once; the pending timeouts are due in 10 to 60 minutes"

	timeResets = "time, reused" // has no row of its own, because time resets its timers too

	resetAbout = "each is reset to 30 s; a peer without a reset cancels and schedules"
	reuseAbout = "each for 10 s; hashedwheel and time arm a new timeout each time"
	stormAbout = "timeouts of 10 s, for 2 s; " + probeAbout
	probeAbout = "the lateness is that of one timeout of 100 ms after another, armed beside them, from its deadline to its task; " +
		"a wheel is up to a tick late by design, and here usually nearly a tick, because most are armed just after a boundary"
)

// List has the workloads in the order in which they run.
var List = complete(append([]*Workload{
	{Name: "floor", Title: "What a timeout costs at least",
		About: "the least of several measurements: new is an allocation as large as a timeout, one clock reading and two atomic operations, large-new the same in heaps of any size; kept is without the allocation; reset is a clock reading and a compare-and-swap on one of 100,000 timeouts; deadline is without the clock; fire is a compare-and-swap and the call of a function, for each of a million timeouts, by the best of several ways on one or on all processors",
		Floor: true, run: runFloor, Metrics: floorMetrics()},
	{Name: "schedule-cancel-serial", Title: "Schedule and cancel, one goroutine, nothing pending",
		About: "a timeout of 10 s, canceled at once", Chart: true, bare: true, run: runScheduleCancel},
	{Name: "schedule-cancel-parallel", Title: "Schedule and cancel, a goroutine for each processor, nothing pending",
		About: "a timeout of 10 s, canceled at once", Chart: true, bare: true, parallel: true, heapToo: true, run: runScheduleCancel},
	{Name: "schedule-cancel-serial-pending", Title: "Schedule and cancel, one goroutine, {n} pending",
		About: pendingAbout, n: [2]int{1e6, 1e5}, run: runScheduleCancel},
	{Name: "schedule-cancel-parallel-pending", Title: "Schedule and cancel, a goroutine for each processor, {n} pending",
		About: pendingAbout, Chart: true, n: [2]int{1e6, 1e5}, parallel: true, run: runScheduleCancel},
	{Name: "cancel-by-other", Title: "Schedule, and cancel by another goroutine, nothing else pending",
		About: "timeouts of 10 s; half as many goroutines as processors schedule, as many others cancel, at least one of each",
		Chart: true, parallel: true, run: runCancelByOther},
	{Name: "schedule", Title: "Schedule only, {n} timeouts", About: "due in 10 to 11 s, none canceled", Chart: true,
		n: [2]int{1e6, 1e5}, run: runSchedule},
	{Name: "reset-serial", Title: "Reset, one goroutine, {n} pending", About: resetAbout, n: [2]int{1e5, 1e4}, kept: true,
		run: runReset, against: "reset", except: timeResets},
	{Name: "reset-parallel", Title: "Reset, a goroutine for each processor, {n} pending", About: resetAbout, Chart: true,
		n: [2]int{1e5, 1e4}, parallel: true, kept: true, run: runReset, against: "reset", except: timeResets},
	{Name: "heartbeat", Title: "Heartbeats: {n} timeouts are reset before they are due",
		About: "each is reset to 1 s four times a second; a peer without a reset cancels and schedules; at the end the resets stop and all fire, and the lateness is that of this end",
		Chart: true, n: [2]int{1e5, 1e4}, tick: 10 * ms, kept: true, run: runHeartbeat,
		Metrics: append(cpuMetrics, firingLateness...), except: timeResets},
	{Name: "reuse-serial", Title: "Arm and cancel {n} kept timeouts in turn, one goroutine", About: reuseAbout,
		n: [2]int{1024, 1024}, rearms: true, kept: true, run: runReuse, against: "kept"},
	{Name: "reuse-parallel", Title: "Arm and cancel {n} kept timeouts in turn, a goroutine for each processor",
		About: reuseAbout, Chart: true, n: [2]int{1024, 1024}, parallel: true, rearms: true, kept: true, run: runReuse, against: "kept"},
	{Name: "fire", Title: "Fire {n} timeouts that are due at once",
		About: "the rate is that from the first task to the last", Chart: true, n: [2]int{1e6, 1e5}, tick: 10 * ms,
		run: runFire, against: "fire", Metrics: []Metric{
			{"rate", "M tasks/s", true}, {"floors", "x floor", false}, {"last", "ms after due", false},
			{"cpu", "ns CPU/task", false}, {"worker", "ns worker/task", false}, {"full", "M tasks/s fill the worker", true},
			{"peak", "MB", false},
		}},
	{Name: "burst", Title: "1,000 timeouts due at one moment in each tick of 10 ms",
		About: "for 3 s, armed a second ahead; the CPU time is that from arming to the end of the task, which reads the clock",
		Chart: true, n: [2]int{3e5, 3e4}, tick: 10 * ms, run: runBurst, Metrics: append(cpuMetrics, firingLateness...)},
	{Name: "pending", Title: "Memory of a pending timeout, and a garbage collection with {n} of them",
		About: "due in 10 to 60 minutes", Chart: true, n: [2]int{1e6, 1e5}, run: runPending,
		Metrics: []Metric{{"bytes", "B/timeout", false}, {"gc", "ms/GC", false}}},
	{Name: "late-10ms", Title: "Lateness of {n} timeouts spread over a second, at a tick of 10 ms",
		About: "a lateness below zero is early", Chart: true, n: [2]int{20000, 2000}, tick: 10 * ms, run: runLate, Metrics: lateMetrics},
	{Name: "late-1ms", Title: "Lateness of {n} timeouts spread over a second, at a tick of 1 ms",
		About: "a lateness below zero is early", n: [2]int{20000, 2000}, tick: ms, run: runLate, Metrics: lateMetrics},
	{Name: "rpc", Title: "RPC mix: 100 to 500 ms, 99 % canceled 256 operations later",
		About: "exactly the timeouts that are not canceled must fire", Chart: true, tick: 10 * ms, parallel: true,
		heapToo: true, run: runRPC, Metrics: append(nsMetrics[:6:6], Metric{"left", "left to fire", false})},
	{Name: "rpc-pooled", Title: "RPC mix with calls from a sync.Pool",
		About: "as rpc, and each call holds its timeout; hashedwheel and time arm a new timeout for each call", Chart: true,
		tick: 10 * ms, parallel: true, rearms: true, kept: true, run: runRPCPooled, against: "kept"},
	{Name: "blocked", Title: "Lateness of {n} timeouts while the task of another one blocks",
		About: "it blocks for 2 s (0.5 s in a short run); a tick of 10 ms", Chart: true, n: [2]int{1000, 200},
		tick: 10 * ms, run: runBlocked, Metrics: []Metric{{"max", "ms", false}, {"p50", "ms", false}}},
	{Name: "storm-at-once", Title: "32 goroutines schedule, and cancel immediately", About: stormAbout, Chart: true,
		parallel: true, heapToo: true, run: runStormAtOnce, Metrics: stormMetrics},
	{Name: "storm-later", Title: "32 goroutines schedule, and cancel {n} operations later", About: stormAbout, Chart: true,
		n: [2]int{4096, 4096}, parallel: true, heapToo: true, run: runStormLater, Metrics: stormMetrics},
	{Name: "storm-by-other", Title: "16 goroutines schedule, and 16 others cancel", About: stormAbout, Chart: true,
		parallel: true, heapToo: true, run: runStormByOther, Metrics: stormMetrics},
	{Name: "storm-latency", Title: "How long calls take when 32 goroutines schedule and immediately cancel",
		About: "for 2 s; the clock is read before and after each call; if a call waits for a processor, the wait counts; " + probeAbout,
		Chart: true, run: runStormLatency, Metrics: append([]Metric{
			{"slow", "calls in a million over 1 ms", false}, {"longest", "µs", false},
		}, stormMetrics...)},
	{Name: "cache", Title: "Get and Set in a cache of {n} keys, a goroutine for each processor",
		About: "three calls of Get to one of Set; lives of 10 to 60 minutes, so that none ends; for 2 s; keys and values are not counted as memory", Chart: true,
		n: [2]int{1e6, 1e5}, parallel: true, caches: true, run: runCache,
		Metrics: []Metric{{"rate", "M ops/s", true}, {"cpu", "ns CPU/op", false}, {"bytes", "B/key", false}}},
	{Name: "cache-expiry", Title: "The longest Get while {n} keys of a cache expire within a second",
		About: "one Get after another, with a pause of 0.05 ms after each; the CPU time is that of 2 s, the second in which the keys expire and the next",
		Chart: true, n: [2]int{1e6, 1e4}, caches: true, run: runCacheExpiry,
		Metrics: []Metric{{"longest", "ms", false}, {"cpu", "ns CPU/key", false}, {"peak", "MB", false}}},
}, own...))

// Find returns the workload of that name.
func Find(name string) (*Workload, bool) {
	i := slices.IndexFunc(List, func(w *Workload) bool { return w.Name == name })
	if i < 0 {
		return nil, false
	}
	return List[i], true
}

// complete fills in what most workloads have, and adds a second workload, with 256 MB of other memory, after each workload
// that asks for one.
func complete(list []*Workload) (all []*Workload) {
	for _, w := range list {
		w.tick, w.About = cmp.Or(w.tick, wheelsTick), cmp.Or(w.About, "only this library")
		if w.Metrics == nil {
			w.Metrics = nsMetrics
		}
		all = append(all, w)
		if w.heapToo {
			h := *w
			h.Name += "-heap"
			h.Title += ", 256 MB of other memory"
			h.About += "; with 256 MB of other live memory, without pointers"
			h.heap, h.Chart = otherHeap, false
			all = append(all, &h)
		}
	}
	return all
}

// FindPeer returns the peer of that name. The floor is one.
func FindPeer(name string) (peers.Peer, bool) {
	for _, p := range slices.Concat([]peers.Peer{floorPeer}, peers.All, peers.Caches) {
		if p.Name == name {
			return p, true
		}
	}
	return peers.Peer{}, false
}
