package promwheel

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Figures yields figures with their names. The method Store.Figures of package deadlines is one.
type Figures = func(yield func(name, help string, counter bool, value float64))

// RegisterFigures registers the figures of something else than a timer, such as a store of package deadlines:
//
//	err := promwheel.RegisterFigures(prometheus.DefaultRegisterer, "deadlines", prometheus.Labels{"store": "orders"}, store.Figures)
//
// The name of a metric is the prefix and the name of the figure, with the suffix _total if it is a counter. Figures
// of the same prefix need different values of their labels.
func RegisterFigures(registerer prometheus.Registerer, prefix string, labels prometheus.Labels, figures Figures) error {
	c := &figuresCollector{prefix, labels, figures}
	if err := registerer.Register(c); err != nil {
		return fmt.Errorf("promwheel: registering the figures %q with the labels %v: %w", prefix, labels, err)
	}
	return nil
}

type figuresCollector struct {
	prefix  string
	labels  prometheus.Labels
	figures Figures
}

func (c *figuresCollector) each(yield func(desc *prometheus.Desc, kind prometheus.ValueType, value float64)) {
	c.figures(func(name, help string, isCounter bool, value float64) {
		kind := gauge
		if isCounter {
			name, kind = name+"_total", counter
		}
		yield(prometheus.NewDesc(c.prefix+"_"+name, help, nil, c.labels), kind, value)
	})
}

// Describe implements prometheus.Collector.
func (c *figuresCollector) Describe(ch chan<- *prometheus.Desc) {
	c.each(func(desc *prometheus.Desc, _ prometheus.ValueType, _ float64) { ch <- desc })
}

// Collect implements prometheus.Collector. Any number of goroutines may call it.
func (c *figuresCollector) Collect(ch chan<- prometheus.Metric) {
	c.each(func(desc *prometheus.Desc, kind prometheus.ValueType, value float64) {
		ch <- prometheus.MustNewConstMetric(desc, kind, value)
	})
}
