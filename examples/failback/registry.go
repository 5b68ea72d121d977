package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// errUnknown is the answer of a registry that has no lease of a provider.
var errUnknown = errors.New("unknown provider")

// A registry keeps the addresses of providers, each on a lease that ends a TTL after it was
// registered or renewed last. A crash takes all of them: the next life is another registry.
type registry struct {
	timer  *hashedwheel.Timer
	ttl    time.Duration
	leases *hashedwheel.Keyed[string, string] // addresses by name
}

// newRegistry returns an empty registry. It tells expired of each lease that has ended because it
// was not renewed.
func newRegistry(tick, ttl time.Duration, expired func(name, addr string)) (*registry, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
	if err != nil {
		return nil, err
	}
	return &registry{timer: timer, ttl: ttl, leases: hashedwheel.NewKeyed(timer, expired)}, nil
}

// register begins the lease of a provider, or a new one if it has one.
func (r *registry) register(_ context.Context, name, addr string) error {
	return r.leases.Set(name, addr, r.ttl)
}

// renew has a lease begin anew, or returns errUnknown. A lease that has just ended stays so.
func (r *registry) renew(_ context.Context, name string) error {
	if !r.leases.Move(name, r.ttl) {
		return errUnknown
	}
	return nil
}

// remove ends a lease, which then does not expire, or returns errUnknown.
func (r *registry) remove(_ context.Context, name string) error {
	if _, ok := r.leases.Remove(name); !ok {
		return errUnknown
	}
	return nil
}

// names returns who has a lease, sorted.
func (r *registry) names() []string {
	return slices.Sorted(maps.Keys(maps.Collect(r.leases.All())))
}

// crash ends the registry and returns how many leases are lost. No lease expires after that. The
// timer hands back what was pending, and it held nothing but leases.
func (r *registry) crash() (lost int) { return len(r.timer.Stop()) }
