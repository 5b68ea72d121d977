package otelwheel

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"weak"

	"go.opentelemetry.io/otel/metric"
)

// registered has the observers whose callbacks are registered, because the SDK adds up the observations of two timers
// of one name without an error. The pointers are weak, so that a provider that is no longer used is collected as
// garbage with its timers, even if nobody has called Unregister. A provider without readers drops the callbacks, so it
// may take a second timer, which nobody observes.
var registered struct {
	sync.Mutex
	observers []weak.Pointer[observer]
}

// register registers the callback of the observer, unless the provider has a timer of the same name.
func register(o *observer) (metric.Registration, error) {
	registered.Lock()
	defer registered.Unlock()
	duplicate := false
	registered.observers = slices.DeleteFunc(registered.observers, func(p weak.Pointer[observer]) bool {
		other := p.Value()
		duplicate = duplicate || other != nil && other.name == o.name && same(other.provider, o.provider)
		return other == nil
	})
	if duplicate {
		return nil, fmt.Errorf("otelwheel: registering a timer with the name %q: the provider has a timer with this name",
			o.name.Value.AsString())
	}
	r, err := o.register(o.provider.Meter(scope))
	if err != nil {
		return nil, err
	}
	registered.observers = append(registered.observers, weak.Make(o))
	return &registration{r, o}, nil
}

// same reports whether a and b are the same provider. Only pointers have an identity: any two values of the provider
// of package noop are equal.
func same(a, b metric.MeterProvider) bool {
	return reflect.TypeOf(a).Kind() == reflect.Pointer && reflect.TypeOf(b).Kind() == reflect.Pointer && a == b
}

// A registration also frees the name of its timer.
type registration struct {
	metric.Registration
	o *observer
}

// Unregister implements metric.Registration.
func (r *registration) Unregister() error {
	if err := r.Registration.Unregister(); err != nil {
		return err
	}
	registered.Lock()
	defer registered.Unlock()
	registered.observers = slices.DeleteFunc(registered.observers, func(p weak.Pointer[observer]) bool {
		return p.Value() == r.o
	})
	return nil
}
