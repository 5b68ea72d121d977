package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A fleet is the second part of a run: providers, and a registry that crashes once.
type fleet struct {
	opts     options
	interval time.Duration // of the renewals
	endpoint endpoint
	client   *registryClient
	registry *registry // a new one after each crash
	rng      *rand.Rand

	// The timer of the providers has no limit of concurrency, because a renewal that waits for its turn
	// could lose the lease. At most one renewal of each provider runs at a time.
	timer     *hashedwheel.Timer
	providers []*provider
	counts    providerCounts
	first     int64 // publications before the crash
	report    fleetReport

	mu       sync.Mutex
	expiries []expiry
}

func newFleet(o options) (*fleet, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(o.tick))
	if err != nil {
		return nil, err
	}
	f := &fleet{opts: o, interval: o.ttl / 3, timer: timer, rng: rand.New(rand.NewPCG(o.seed, 2))}
	f.client = &registryClient{endpoint: &f.endpoint}
	f.client.http.Transport = &http.Transport{MaxIdleConnsPerHost: o.providers}
	for i := range o.providers {
		f.providers = append(f.providers, &provider{
			name: fmt.Sprintf("provider-%03d", i), addr: fmt.Sprintf("127.0.0.1:%d", 20000+i),
			timer: timer, directory: f.client, interval: f.interval, counts: &f.counts,
		})
	}
	f.report = fleetReport{opts: o, bound: f.interval + 2*o.tick + o.grace}
	return f, nil
}

// run runs the steps of the fleet one after another, until ctx is canceled.
func (f *fleet) run(ctx context.Context) error {
	defer f.client.http.CloseIdleConnections()
	defer f.timer.Stop()
	if err := f.open(); err != nil {
		return err
	}
	defer func() {
		f.endpoint.down()
		f.registry.crash()
	}()
	for _, step := range []func(context.Context) error{f.publish, f.restart, f.stopSome, f.outlive, f.leave} {
		if err := step(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	f.finish()
	return nil
}

// open starts a new, empty registry.
func (f *fleet) open() (err error) {
	f.registry, err = newRegistry(f.opts.tick, f.opts.ttl, func(name, _ string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.expiries = append(f.expiries, expiry{name, time.Now()})
	})
	if err != nil {
		return err
	}
	return f.endpoint.up(f.registry.handler())
}

// await waits until the registry has n leases and returns true. It returns false at the deadline, or when ctx
// is canceled. It checks once a tick.
func (f *fleet) await(ctx context.Context, n int, deadline time.Time) bool {
	for f.registry.leases.Len() != n {
		if time.Now().After(deadline) || f.timer.Sleep(ctx, f.opts.tick) != nil {
			return false
		}
	}
	return true
}

func (f *fleet) lives() map[string]life {
	lives := make(map[string]life, len(f.providers))
	for _, p := range f.providers {
		lives[p.name] = p.lived()
	}
	return lives
}

// finish ends the renewals and fills in the report.
func (f *fleet) finish() {
	r := &f.report
	limit, cancel := context.WithTimeout(context.Background(), f.interval+f.opts.grace)
	defer cancel()
	if r.lives == nil { // interrupted
		r.lives = f.lives()
	}
	renewing, _ := f.timer.Shutdown(limit)
	r.renewing, r.timer = len(renewing), f.timer.Stats()
	r.published, r.renewed, r.failed = f.counts.published.Load(), f.counts.renewed.Load(), f.counts.failed.Load()
	r.republished = r.published - f.first
	f.mu.Lock()
	defer f.mu.Unlock()
	r.verdict = judge(f.opts.ttl, f.opts.tick+f.opts.grace, r.lives, f.expiries, r.complete)
}
