package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// These are the steps of a fleet, in order. They write their results to its report.

// publish starts the providers at random moments.
func (f *fleet) publish(ctx context.Context) error {
	start := time.Now()
	for _, p := range f.providers {
		if err := p.start(time.Duration(f.rng.Int64N(int64(f.interval)))); err != nil {
			return err
		}
	}
	f.report.allPublished = f.await(ctx, len(f.providers), start.Add(2*f.report.bound))
	f.report.publishedIn = time.Since(start)
	return nil
}

// restart makes the registry crash at a random moment, and starts a new one later.
func (f *fleet) restart(ctx context.Context) error {
	ttl := float64(f.opts.ttl)
	if err := f.timer.Sleep(ctx, time.Duration(ttl*(0.4+0.8*f.rng.Float64()))); err != nil {
		return err
	}
	f.first = f.counts.published.Load()
	failed := f.counts.failed.Load()
	down := time.Now()
	f.endpoint.down()
	f.report.lost = f.registry.crash()
	if err := f.timer.Sleep(ctx, time.Duration(ttl*(0.15+0.25*f.rng.Float64()))); err != nil {
		return err
	}
	f.report.failedDown = f.counts.failed.Load() - failed
	up := time.Now()
	if err := f.open(); err != nil {
		return fmt.Errorf("the registry did not come up: %w", err)
	}
	f.report.restarted = true
	f.report.downFor = up.Sub(down)
	f.report.allBack = f.await(ctx, len(f.providers), up.Add(2*f.report.bound))
	f.report.backIn = time.Since(up)
	return nil
}

// stopSome stops some of the providers, each at a random moment.
func (f *fleet) stopSome(ctx context.Context) error {
	moments := make([]time.Duration, f.opts.stop)
	for i := range moments {
		moments[i] = time.Duration(f.rng.Int64N(int64(f.interval)))
	}
	slices.Sort(moments)
	f.rng.Shuffle(len(f.providers), func(i, j int) {
		f.providers[i], f.providers[j] = f.providers[j], f.providers[i]
	})
	start := time.Now()
	for i, moment := range moments {
		if err := f.timer.Sleep(ctx, moment-time.Since(start)); err != nil {
			return err
		}
		if err := f.providers[i].stop(ctx); err != nil {
			return err
		}
		f.report.stopped++
	}
	return nil
}

// outlive waits until the leases of the stopped providers should have expired.
func (f *fleet) outlive(ctx context.Context) error {
	limit := f.opts.ttl + f.opts.tick + f.opts.grace
	f.await(ctx, len(f.providers)-f.report.stopped, time.Now().Add(limit))
	return nil
}

// leave compares the providers that a consumer sees with the live ones, and then makes the live ones leave.
func (f *fleet) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.report.bound)
	defer cancel()
	listed, err := f.client.names(ctx)
	if err != nil {
		return fmt.Errorf("the list of providers: %w", err)
	}
	f.report.lives = f.lives()
	live := f.providers[f.report.stopped:]
	f.report.listed = len(listed)
	for _, p := range live {
		if !slices.Contains(listed, p.name) {
			f.report.unlisted++
		}
		if err := p.leave(ctx); errors.Is(err, errUnknown) {
			f.report.unlisted++
		} else if err != nil {
			return fmt.Errorf("the leave of %s: %w", p.name, err)
		}
	}
	f.report.left = f.registry.leases.Len()
	f.report.complete = true
	return nil
}
