package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A directory is what a provider needs of a registry, near or far.
type directory interface {
	register(ctx context.Context, name, addr string) error
	renew(ctx context.Context, name string) error
	remove(ctx context.Context, name string) error
}

// A provider keeps itself registered: it renews its lease at a third of the TTL, so that the next
// renewal is in time if one fails, and publishes itself again when it has become unknown. It is
// the task of its own timeout, whose runs never overlap.
type provider struct {
	name, addr string
	timer      *hashedwheel.Timer
	directory  directory
	interval   time.Duration // from the end of a renewal to the next; one may take half of that
	counts     *providerCounts

	timeout *hashedwheel.Timeout

	mu   sync.Mutex
	life life
}

// providerCounts are those of all providers together.
type providerCounts struct {
	published, renewed, failed atomic.Int64
}

// start has the provider publish itself after initialDelay, and renew the lease from then on.
//
// The delay is counted from the end of a run. At a fixed rate a renewal that hung would be followed
// by others at once, to make up for those missed, and one of them is enough.
func (p *provider) start(initialDelay time.Duration) (err error) {
	p.timeout, err = p.timer.ScheduleWithFixedDelay(p, initialDelay, p.interval)
	return err
}

// Run renews the lease, or publishes the provider if the registry does not know it: the first time,
// and when the registry has lost it.
func (p *provider) Run(*hashedwheel.Timeout) {
	done := &p.counts.renewed
	err := p.ask(func(ctx context.Context) error { return p.directory.renew(ctx, p.name) })
	if errors.Is(err, errUnknown) {
		done = &p.counts.published
		err = p.ask(func(ctx context.Context) error { return p.directory.register(ctx, p.name, p.addr) })
	}
	if err != nil {
		done = &p.counts.failed
	}
	done.Add(1)
}

// ask makes a request that begins a lease if it is accepted.
func (p *provider) ask(request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.interval/2)
	defer cancel()
	sent := time.Now()
	err := request(ctx)
	if err == nil {
		p.mu.Lock()
		p.life.accepted = sent
		p.mu.Unlock()
	}
	return err
}

// stop ends the renewals as a crash of the provider would: the registry is not told. When it
// returns nil no renewal is under way.
func (p *provider) stop(ctx context.Context) error {
	p.mu.Lock()
	p.life.stopping = time.Now()
	p.mu.Unlock()
	if p.timeout != nil {
		p.timeout.Cancel()
		if err := p.timeout.Wait(ctx); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.life.stopped = time.Now()
	p.mu.Unlock()
	return nil
}

// leave ends the renewals and the lease with them. The error is errUnknown if there was none.
func (p *provider) leave(ctx context.Context) error {
	if err := p.stop(ctx); err != nil {
		return err
	}
	return p.directory.remove(ctx, p.name)
}

// lived returns what the provider has seen so far.
func (p *provider) lived() life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life
}
