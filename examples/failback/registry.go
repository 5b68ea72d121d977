package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/keyed"
)

// errUnknown is returned when the registry has no lease of a provider.
var errUnknown = errors.New("unknown provider")

// A registry keeps the addresses of providers. Each provider has a lease, which ends a TTL after the last
// registration or renewal. A crash loses all leases. Then a new registry takes its place.
type registry struct {
	timer  *hashedwheel.Timer
	ttl    time.Duration
	leases *keyed.Map[string, string] // addresses by name
}

// newRegistry returns an empty registry. It calls expired for each lease that ends because it was not renewed.
func newRegistry(tick, ttl time.Duration, expired func(name, addr string)) (*registry, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
	if err != nil {
		return nil, err
	}
	return &registry{timer: timer, ttl: ttl, leases: keyed.New(timer, expired)}, nil
}

// register begins a new lease of a provider, also if it has one.
func (r *registry) register(_ context.Context, name, addr string) error {
	return r.leases.Set(name, addr, r.ttl)
}

// renew restarts a lease, or returns errUnknown. It does not restart a lease that has just ended.
func (r *registry) renew(_ context.Context, name string) error {
	if _, ok := r.leases.Touch(name, r.ttl); !ok {
		return errUnknown
	}
	return nil
}

// remove ends a lease, or returns errUnknown. The lease then does not expire.
func (r *registry) remove(_ context.Context, name string) error {
	if _, ok := r.leases.Remove(name); !ok {
		return errUnknown
	}
	return nil
}

// names returns the sorted names of the providers that have a lease.
func (r *registry) names() []string {
	return slices.Sorted(maps.Keys(maps.Collect(r.leases.All())))
}

// crash ends the registry and returns how many leases are lost. No lease expires after that. Stop returns the
// pending timeouts, and this timer has no others than those of leases.
func (r *registry) crash() (lost int) { return len(r.timer.Stop()) }
