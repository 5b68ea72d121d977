package otelwheel

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// A Store is a *deadlines.Store. It is an interface, so that a program without one does not need package deadlines.
type Store interface {
	Name() string
	Figures(yield func(name, help string, counter bool, value float64))
}

// RegisterStore observes a store of package deadlines through a meter of the provider. The names of the instruments begin
// with "deadlines.", and the name of the store is the attribute store. In Prometheus the metrics have the names and the
// labels of package promwheel. A provider takes only one store of each name. For another one, the error says the name.
// Until Unregister is called, the provider keeps the store and its name.
func RegisterStore(provider metric.MeterProvider, store Store) (metric.Registration, error) {
	o := &storeObserver{identity{provider, storeKey.String(store.Name())}, store, make(map[string]metric.Float64Observable)}
	return register(&o.identity, o.register)
}

// A storeObserver observes one store.
type storeObserver struct {
	identity
	store   Store
	figures map[string]metric.Float64Observable // by their names
}

// register makes the instruments, which the meter shares with those of other stores, and registers the callback.
func (o *storeObserver) register(meter metric.Meter) (metric.Registration, error) {
	var all []metric.Observable
	var err error
	o.store.Figures(func(name, help string, counter bool, _ float64) {
		if err != nil {
			return
		}
		var figure metric.Float64Observable
		if full, description := "deadlines."+name, metric.WithDescription(help); counter {
			figure, err = meter.Float64ObservableCounter(full, description)
		} else {
			figure, err = meter.Float64ObservableGauge(full, description)
		}
		o.figures[name] = figure
		all = append(all, figure)
	})
	if err != nil {
		return nil, err
	}
	return meter.RegisterCallback(o.observe, all...)
}

// observe is called by each reader that collects.
func (o *storeObserver) observe(_ context.Context, to metric.Observer) error {
	own := with(o.name)
	o.store.Figures(func(name, _ string, _ bool, value float64) {
		to.ObserveFloat64(o.figures[name], value, own)
	})
	return nil
}
