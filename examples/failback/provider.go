package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A directory has the methods of a registry that a provider needs. It may be local or remote.
type directory interface {
	register(ctx context.Context, name, addr string) error
	renew(ctx context.Context, name string) error
	remove(ctx context.Context, name string) error
}

// A provider keeps itself registered. It renews its lease every third of the TTL, so that the next renewal is
// still in time if one fails. It registers again if the registry no longer knows it. It is the task of its own
// timeout, whose runs never overlap.
type provider struct {
	name, addr string
	timer      *hashedwheel.Timer
	directory  directory
	interval   time.Duration // from the end of a renewal to the next; a request may take half of it
	counts     *providerCounts

	timeout *hashedwheel.Timeout

	mu   sync.Mutex
	life life
}

// providerCounts count the requests of all providers together.
type providerCounts struct {
	published, renewed, failed atomic.Int64
}

// start makes the provider register after initialDelay, and renew the lease from then on.
//
// It uses a fixed delay. With a fixed rate, after a renewal that hung, all the missed renewals would follow at
// once, although one is enough.
func (p *provider) start(initialDelay time.Duration) (err error) {
	p.timeout, err = p.timer.ScheduleWithFixedDelay(p, initialDelay, p.interval)
	return err
}

// Run renews the lease. It registers the provider if the registry does not know it: the first time, and after
// the registry has lost it.
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

// ask makes a request. If the registry accepts it, a lease begins.
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

// stop ends the renewals without a request to the registry, as a crash of the provider would. When it returns
// nil, no renewal is in progress.
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

// leave ends the renewals and the lease. The error is errUnknown if there was no lease.
func (p *provider) leave(ctx context.Context) error {
	if err := p.stop(ctx); err != nil {
		return err
	}
	return p.directory.remove(ctx, p.name)
}

// lived returns what the provider has recorded so far.
func (p *provider) lived() life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life
}
