package otelwheel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Figures yields figures with their names. The method Store.Figures of package deadlines is one.
type Figures = func(yield func(name, help string, counter bool, value float64))

// RegisterFigures observes the figures of something else than a timer, such as a store of package deadlines:
//
//	registration, err := otelwheel.RegisterFigures(provider, "deadlines", attribute.String("store", "orders"), store.Figures)
//
// The name of an instrument is the prefix, a dot and the name of the figure. In Prometheus the metrics have the names
// and the labels of package promwheel. Figures of the same prefix need different attributes.
func RegisterFigures(provider metric.MeterProvider, prefix string, name attribute.KeyValue, figures Figures) (metric.Registration, error) {
	meter := provider.Meter(scope)
	instruments := make(map[string]metric.Float64Observable)
	var all []metric.Observable
	var err error
	figures(func(figure, help string, counter bool, _ float64) {
		if err != nil {
			return
		}
		var in metric.Float64Observable
		if full, description := prefix+"."+figure, metric.WithDescription(help); counter {
			in, err = meter.Float64ObservableCounter(full, description)
		} else {
			in, err = meter.Float64ObservableGauge(full, description)
		}
		instruments[figure] = in
		all = append(all, in)
	})
	if err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		figures(func(figure, _ string, _ bool, value float64) {
			to.ObserveFloat64(instruments[figure], value, with(name))
		})
		return nil
	}, all...)
}
