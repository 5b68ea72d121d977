package main

var (
	nsMetrics = []metric{
		{"wall", "ns/op", false}, {"floors", "x floor", false}, {"cpu", "ns CPU/op", false}, {"allocated", "B/op", false},
	}
	lateMetrics = []metric{{"p99", "ms", false}, {"min", "ms", false}, {"p50", "ms", false}, {"max", "ms", false}}
)

// floorMetrics are the results of floorMetric, with the parts of a new timeout.
func floorMetrics() (all []metric) {
	for _, name := range []string{"new", "large-new", "kept", "kept-deadline", "reset", "reset-deadline"} {
		all = append(all, metric{name, "ns", false}, metric{name + "-parallel", "ns", false})
	}
	for _, name := range []string{"fire", "allocation", "clock", "atomics"} {
		all = append(all, metric{name, "ns", false})
	}
	return all
}

const reuseAbout = "each for 10 s; hashedwheel and time arm a new timeout each time"

var pooledMetrics = []metric{
	{"rate", "M ops/s", true}, {"cpu", "ns CPU/op", false}, {"allocated", "B/op", false}, {"left", "left to fire", false},
}

// burstLateness are metrics that follow a first metric, which is not a lateness.
var burstLateness = []metric{{"p50", "ms", false}, {"p99", "ms", false}, {"max", "ms", false}}

const stormAbout = "timeouts of 10 s, for 2 s; " + probeAbout

const probeAbout = "the lateness is that of one timeout of 100 ms after another, armed beside them, from its deadline to its task; " +
	"a wheel is up to a tick late by design, and here usually nearly a tick, because most are armed just after a boundary"

// stormMetrics have p90 and not p99, because a run has only about 20 of these timeouts.
var stormMetrics = []metric{
	{"rate", "M ops/s", true}, {"cpu", "ns CPU/op", false}, {"live", "MB live heap", false}, {"peak", "MB", false},
	{"p50", "ms", false}, {"p90", "ms", false}, {"max", "ms", false},
}

var floodMetrics = []metric{{"max", "ms", false}, {"p50", "ms", false}, {"rate", "M ops/s", true}, {"peak", "MB", false}}
