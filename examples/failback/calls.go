package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// calls are the first part of a run: callers, and a service that goes down and comes up again.
type calls struct {
	opts     options
	timer    *hashedwheel.Timer
	failback *failback
	client   *serviceClient
	endpoint endpoint
	service  *service

	start  time.Time
	lastID atomic.Uint64
	tally  tally
	plan   []outage
}

func newCalls(o options) (*calls, error) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(o.tick), hashedwheel.WithMaxConcurrency(o.concurrency))
	if err != nil {
		return nil, err
	}
	c := &calls{opts: o, timer: timer, service: newService(o.busy, o.mute)}
	c.client = &serviceClient{endpoint: &c.endpoint}
	c.client.http.Transport = &http.Transport{MaxIdleConnsPerHost: o.callers + o.concurrency}
	c.failback = &failback{
		timer: timer, timeout: o.timeout, deadline: o.deadline, attempts: o.attempts,
		backoff: backoff{base: o.base, max: o.max, jitter: o.jitter},
		try:     c.client.try, observe: c.tally.observe,
	}
	c.tally.records = make([]record, o.count)
	c.plan = planOutages(rand.New(rand.NewPCG(o.seed, 1)), o.outages, o.over)
	return c, nil
}

// run makes the calls, and returns when all of them have ended. If ctx is canceled it makes no more calls,
// lets the attempts in progress end, and abandons the calls that wait for another attempt.
func (c *calls) run(ctx context.Context) error {
	defer c.client.http.CloseIdleConnections()
	defer c.endpoint.down()
	defer c.timer.Stop()
	if err := c.endpoint.up(c.service); err != nil {
		return err
	}
	c.start = time.Now()
	var outages, callers sync.WaitGroup
	var broken error
	outages.Go(func() { broken = c.breakDown(ctx) })
	for range c.opts.callers {
		callers.Go(func() { c.call(ctx) })
	}
	callers.Wait()
	outages.Wait()
	if broken != nil {
		return fmt.Errorf("the service did not come up: %w", broken)
	}
	c.awaitEnds(ctx)

	// The attempts in progress have a timeout. The report counts those that exceed it by more than -grace.
	limit, cancel := context.WithTimeout(context.Background(), c.opts.timeout+c.opts.grace)
	defer cancel()
	c.failback.shutdown(limit)
	return nil
}

// call makes one call after another, each at its time, until all calls are made.
func (c *calls) call(ctx context.Context) {
	for {
		id := c.lastID.Add(1)
		if id > uint64(c.opts.count) {
			return
		}
		at := c.opts.over / time.Duration(c.opts.count) * time.Duration(id-1)
		if c.timer.Sleep(ctx, at-time.Since(c.start)) != nil {
			return
		}
		c.tally.issue(id)
		// ctx does not cancel the call, because after an interruption the failback ends it.
		c.failback.do(context.WithoutCancel(ctx), id, c.tally.end)
	}
}

// awaitEnds returns when all calls have ended or ctx is canceled. It also returns when there was no attempt
// for longer than a call may wait, because then the remaining calls never end.
func (c *calls) awaitEnds(ctx context.Context) {
	patience := c.opts.max + c.opts.timeout + c.opts.tick + c.opts.grace
	last, since := 0, time.Now()
	for {
		issued, ended, attempts := c.tally.counts()
		if ended >= issued || attempts == last && time.Since(since) > patience {
			return
		}
		if attempts != last {
			last, since = attempts, time.Now()
		}
		if c.timer.Sleep(ctx, c.opts.tick) != nil {
			return
		}
	}
}

// An outage is a time in which the service is down.
type outage struct {
	at, length time.Duration // as planned, from the start
	down, up   time.Time     // as it happened; zero if it did not
}

// planOutages divides the time into n parts, and returns one outage at a random moment of each part. Each ends
// well before the next part.
func planOutages(rng *rand.Rand, n int, over time.Duration) []outage {
	plan := make([]outage, n)
	for i := range plan {
		part := float64(over) / float64(n)
		plan[i].at = time.Duration(part * (float64(i) + 0.05 + 0.45*rng.Float64()))
		plan[i].length = time.Duration(part * (0.15 + 0.25*rng.Float64()))
	}
	return plan
}

// breakDown takes the service down and up again as planned.
func (c *calls) breakDown(ctx context.Context) error {
	for i := range c.plan {
		o := &c.plan[i]
		if c.timer.Sleep(ctx, o.at-time.Since(c.start)) != nil {
			return nil
		}
		o.down = time.Now()
		c.endpoint.down()
		if c.timer.Sleep(ctx, o.length) != nil {
			return nil
		}
		if err := c.endpoint.up(c.service); err != nil {
			return err
		}
		o.up = time.Now()
	}
	return nil
}
