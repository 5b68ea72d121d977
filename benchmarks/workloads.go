package main

var workloads = withHeap([]*workload{
	{
		name: "floor", title: "What a timeout costs at least",
		about: "the least of several measurements: new is one allocation of a timeout, one clock reading and two atomic operations, large-new the same in heaps of any size; kept is without the allocation; reset is a clock reading and a compare-and-swap on one of 100,000 timeouts; deadline is without the clock; fire is a compare-and-swap and the call of a function, for each of a million timeouts, by the best of several ways on one or on all processors",
		floor: true, tick: wheelsTick, run: runFloor, seconds: 20,
		metrics: floorMetrics(),
	},
	{
		name: "check", title: "Correctness", about: "nothing fires early, twice, after Cancel or after Stop, and nothing is lost",
		tick: 10 * ms, run: runCheck, seconds: 20, million: true, kept: true, metrics: lateMetrics,
	},
	{
		name: "schedule-cancel-serial", title: "Schedule and cancel, one goroutine, nothing pending",
		about: "a timeout of 10 s, canceled at once", tick: wheelsTick,
		bare: true, cancels: true, run: runScheduleCancel, seconds: 20, metrics: nsMetrics,
		heapToo: true,
	},
	{
		name: "schedule-cancel-parallel", title: "Schedule and cancel, a goroutine for each processor, nothing pending",
		about: "a timeout of 10 s, canceled at once", tick: wheelsTick,
		bare: true, cancels: true, parallel: true, run: runScheduleCancel, seconds: 20, metrics: nsMetrics,
		heapToo: true,
	},
	{
		name: "schedule-cancel-serial-pending", title: "Schedule and cancel, one goroutine, {n} pending",
		about: "a timeout of 10 s, canceled at once; the pending timeouts are due in 10 to 60 minutes", n: [2]int{1e6, 1e5}, tick: wheelsTick, far: hour,
		cancels: true, million: true, run: runScheduleCancel, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "schedule-cancel-parallel-pending", title: "Schedule and cancel, a goroutine for each processor, {n} pending",
		about: "a timeout of 10 s, canceled at once; the pending timeouts are due in 10 to 60 minutes", n: [2]int{1e6, 1e5}, tick: wheelsTick, far: hour,
		cancels: true, parallel: true, million: true, run: runScheduleCancel, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "schedule-cancel-parallel-limit", title: "Schedule and cancel, a goroutine for each processor, with a limit",
		about: "a timeout of 10 s, canceled at once; the limit of 1,048,576 pending timeouts is never reached", tick: wheelsTick,
		maxPending: 1 << 20, cancels: true, parallel: true, run: runScheduleCancel, seconds: 20, metrics: nsMetrics,
		heapToo: true,
	},
	{
		name: "cancel-by-other", title: "Schedule, and cancel by another goroutine, nothing else pending",
		about: "timeouts of 10 s; half as many goroutines as processors schedule, as many others cancel, at least one of each",
		tick:  wheelsTick, cancels: true, parallel: true, run: runCancelByOther, seconds: 20, metrics: nsMetrics,
		heapToo: true,
	},
	{
		name: "schedule", title: "Schedule only, {n} timeouts",
		about: "due in 10 to 11 s, none canceled", n: [2]int{1e6, 1e5}, tick: wheelsTick,
		million: true, run: runSchedule, seconds: 20, metrics: nsMetrics,
	},
	{
		name: "reset-serial", title: "Reset, one goroutine, {n} pending",
		about: "each is reset to 30 s; a peer without a reset cancels and schedules", n: [2]int{1e5, 1e4}, tick: wheelsTick,
		cancels: true, kept: true, run: runReset, seconds: 20, against: "reset", metrics: nsMetrics,
		except: []string{"time, reused"}, // because time resets its timers too
	},
	{
		name: "reset-parallel", title: "Reset, a goroutine for each processor, {n} pending",
		about: "each is reset to 30 s; a peer without a reset cancels and schedules", n: [2]int{1e5, 1e4}, tick: wheelsTick,
		cancels: true, parallel: true, kept: true, run: runReset, seconds: 20, against: "reset", metrics: nsMetrics,
		except: []string{"time, reused"}, // because time resets its timers too
	},
	{
		name: "heartbeat", title: "Heartbeats: {n} timeouts are reset before they are due",
		about: "each is reset to 1 s four times a second; a peer without a reset cancels and schedules; at the end the resets stop and all fire, and the lateness is that of this end",
		n:     [2]int{1e5, 1e4}, tick: 10 * ms, cancels: true, kept: true, run: runHeartbeat, seconds: 20,
		metrics: append([]metric{{"cpu", "ns CPU/reset", false}}, burstLateness...),
	},
	{
		name: "reuse-serial", title: "Arm and cancel {n} kept timeouts in turn, one goroutine", about: reuseAbout,
		n: [2]int{1024, 1024}, tick: wheelsTick,
		cancels: true, rearms: true, kept: true, run: runReuse, seconds: 20, against: "kept", metrics: nsMetrics,
		heapToo: true,
	},
	{
		name: "reuse-parallel", title: "Arm and cancel {n} kept timeouts in turn, a goroutine for each processor",
		about: reuseAbout, n: [2]int{1024, 1024}, tick: wheelsTick,
		cancels: true, parallel: true, rearms: true, kept: true, run: runReuse, seconds: 20, against: "kept", metrics: nsMetrics,
		heapToo: true,
	},
	{
		name: "fire", title: "Fire {n} timeouts that are due at once", about: "the rate is that from the first task to the last",
		n: [2]int{1e6, 1e5}, tick: 10 * ms, million: true, run: runFire, seconds: 20, against: "fire",
		metrics: []metric{
			{"rate", "M tasks/s", true}, {"floors", "x floor", false}, {"last", "ms after due", false},
			{"cpu", "ns CPU/task", false}, {"peak", "MB", false},
		},
	},
	{
		name: "burst", title: "1,000 timeouts due at one moment in each tick of 10 ms",
		about: "for 3 s, armed a second ahead; the CPU time is that from arming to the end of the task, which reads the clock",
		n:     [2]int{3e5, 3e4}, tick: 10 * ms, million: true, run: runBurst, seconds: 20,
		metrics: append([]metric{{"cpu", "ns CPU/task", false}}, burstLateness...),
	},
	{
		name: "pending", title: "Memory of a pending timeout, and a garbage collection with {n} of them",
		about: "due in 10 to 60 minutes", n: [2]int{1e6, 1e5}, tick: wheelsTick, far: hour,
		million: true, run: runPending, seconds: 20,
		metrics: []metric{{"bytes", "B/timeout", false}, {"gc", "ms/GC", false}},
	},
	{
		name: "idle", title: "Idle, with {n} timeouts that are far off", about: "due in 10 to 60 minutes; a tick of 10 ms",
		n: [2]int{1e6, 1e5}, tick: 10 * ms, far: hour, million: true, run: runIdle, seconds: 20,
		metrics: []metric{{"cpu", "% of a core", false}, {"wakeups", "wake-ups/s", false}},
	},
	{
		name: "late-10ms", title: "Lateness of {n} timeouts spread over a second, at a tick of 10 ms",
		about: "a lateness below zero is early", n: [2]int{20000, 2000}, tick: 10 * ms,
		million: true, run: runLate, seconds: 15, metrics: lateMetrics,
	},
	{
		name: "late-1ms", title: "Lateness of {n} timeouts spread over a second, at a tick of 1 ms",
		about: "a lateness below zero is early", n: [2]int{20000, 2000}, tick: ms, exact: true,
		run: runLate, seconds: 15, metrics: lateMetrics,
	},
	{
		name: "rpc", title: "RPC mix: 100 to 500 ms, 99 % canceled 256 operations later",
		about: "exactly the timeouts that are not canceled must fire", tick: 10 * ms, cancels: true, parallel: true,
		run: runRPC, seconds: 30, million: true, metrics: append(nsMetrics[:len(nsMetrics):len(nsMetrics)],
			metric{"left", "left to fire", false}),
		heapToo: true,
	},
	{
		name: "rpc-pooled", title: "RPC mix with calls from a sync.Pool",
		about: "as rpc, and each call holds its timeout; hashedwheel and time arm a new timeout for each call",
		tick:  10 * ms, cancels: true, parallel: true, rearms: true, kept: true,
		run: runRPCPooled, seconds: 30, against: "kept", metrics: pooledMetrics,
		heapToo: true,
	},
	{
		name: "blocked", title: "Lateness of {n} timeouts while the task of another one blocks",
		about: "it blocks for 2 s (0.5 s in a short run); a tick of 10 ms", n: [2]int{1000, 200}, tick: 10 * ms,
		run: runBlocked, seconds: 15, metrics: []metric{{"max", "ms", false}, {"p50", "ms", false}},
	},
	{
		name: "flood-10ms", title: "Worst lateness of a timeout of 100 ms under two busy producers, tick of 10 ms",
		about: "they schedule and cancel as fast as they can for 3 s", tick: 10 * ms, cancels: true,
		run: runFlood, seconds: 60, metrics: floodMetrics,
	},
	{
		name: "flood-100ms", title: "Worst lateness of a timeout of 100 ms under two busy producers, tick of 100 ms",
		about: "they schedule and cancel as fast as they can for 3 s", tick: 100 * ms, cancels: true, exact: true,
		run: runFlood, seconds: 60, metrics: floodMetrics,
	},
	{
		name: "storm-at-once", title: "32 goroutines schedule, and cancel immediately",
		about: stormAbout, tick: wheelsTick, cancels: true, parallel: true, run: runStormAtOnce, seconds: 60, metrics: stormMetrics,
		heapToo: true, heapOnly: []string{"hashedwheel", "time"},
	},
	{
		name: "storm-later", title: "32 goroutines schedule, and cancel 4,096 operations later",
		about: stormAbout, tick: wheelsTick, cancels: true, parallel: true, run: runStormLater, seconds: 60, metrics: stormMetrics,
		heapToo: true, heapOnly: []string{"hashedwheel", "time"},
	},
	{
		name: "storm-by-other", title: "16 goroutines schedule, and 16 others cancel",
		about: stormAbout, tick: wheelsTick, cancels: true, parallel: true, run: runStormByOther, seconds: 60, metrics: stormMetrics,
		heapToo: true, heapOnly: []string{"hashedwheel", "time"},
	},
	{
		name: "storm-latency", title: "How long calls take when 32 goroutines schedule and immediately cancel",
		about: "for 2 s; the clock is read before and after each call; if a call waits for a processor, the wait counts; a percentile of 100000 µs stands for that or more; " + probeAbout,
		tick:  wheelsTick, cancels: true, run: runStormLatency, seconds: 60, metrics: append([]metric{
			{"call-p99.9999", "µs", false}, {"call-max", "µs", false}, {"slow", "calls over 1 ms", false},
		}, stormMetrics...),
	},
})
