package promwheel

import "github.com/prometheus/client_golang/prometheus"

// A Store is a *deadlines.Store. It is an interface, so that a program without one does not need package deadlines.
type Store interface {
	Name() string
	Figures(yield func(name, help string, counter bool, value float64))
}

// NewStoreCollector returns a collector of the figures of a store of package deadlines:
//
//	err := registerer.Register(promwheel.NewStoreCollector(store))
//
// The names of the metrics begin with deadlines_, and those of counters end in _total. Every metric has the label store,
// the name of the store, so a registry takes any number of stores with different names.
func NewStoreCollector(store Store) prometheus.Collector {
	return &storeCollector{store, prometheus.Labels{"store": store.Name()}}
}

type storeCollector struct {
	store  Store
	labels prometheus.Labels
}

// Describe implements prometheus.Collector.
func (c *storeCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector. Any number of goroutines may call it.
func (c *storeCollector) Collect(ch chan<- prometheus.Metric) {
	c.store.Figures(func(name, help string, isCounter bool, value float64) {
		kind := gauge
		if isCounter {
			name, kind = name+"_total", counter
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("deadlines_"+name, help, nil, c.labels), kind, value)
	})
}
