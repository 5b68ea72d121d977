package otelwheel

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"weak"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// An identity is what tells one observer of a provider from the others. It is a field of the observer.
type identity struct {
	provider metric.MeterProvider
	name     attribute.KeyValue // of the timer or the store
}

// registered has the observers whose callbacks are registered, because the SDK adds up the observations of two timers
// of one name without an error. The pointers are weak, so that a provider that is no longer used is collected as
// garbage with its timers, even if nobody has called Unregister. A provider without readers drops the callbacks, so it
// may take a second timer, which nobody observes.
var registered struct {
	sync.Mutex
	identities []weak.Pointer[identity]
}

// register calls add, which registers the callback of an observer, unless the provider has a timer or a store of the same
// name. The callback keeps the observer and its identity.
func register(id *identity, add func(metric.Meter) (metric.Registration, error)) (metric.Registration, error) {
	registered.Lock()
	defer registered.Unlock()
	duplicate := false
	registered.identities = slices.DeleteFunc(registered.identities, func(p weak.Pointer[identity]) bool {
		other := p.Value()
		duplicate = duplicate || other != nil && other.name == id.name && same(other.provider, id.provider)
		return other == nil
	})
	if duplicate {
		return nil, fmt.Errorf("otelwheel: registering a %s with the name %q: the provider has a %[1]s with this name",
			id.name.Key, id.name.Value.AsString())
	}
	r, err := add(id.provider.Meter(scope))
	if err != nil {
		return nil, err
	}
	registered.identities = append(registered.identities, weak.Make(id))
	return &registration{r, id}, nil
}

// same reports whether a and b are the same provider. Only pointers have an identity: any two values of the provider
// of package noop are equal.
func same(a, b metric.MeterProvider) bool {
	return reflect.TypeOf(a).Kind() == reflect.Pointer && reflect.TypeOf(b).Kind() == reflect.Pointer && a == b
}

// A registration also frees the name of its timer or store.
type registration struct {
	metric.Registration
	id *identity
}

// Unregister implements metric.Registration.
func (r *registration) Unregister() error {
	if err := r.Registration.Unregister(); err != nil {
		return err
	}
	registered.Lock()
	defer registered.Unlock()
	registered.identities = slices.DeleteFunc(registered.identities, func(p weak.Pointer[identity]) bool {
		return p.Value() == r.id
	})
	return nil
}
