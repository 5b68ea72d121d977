package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// The parameters of the load.
const (
	burstEvery = 10 * time.Millisecond
	rpcTimeout = 3 * time.Second
	lost       = 0.01 // the part of the replies that never come
	retryTask  = 20 * time.Millisecond
)

// load makes requests until the context is done, each with a timeout on rpc. Most replies come within 50 ms and
// cancel the timeout. Retries run on the other timer after up to ten seconds, and take some time, as calls do.
// The channel is closed when the load has ended.
func load(ctx context.Context, rpc, retry *hashedwheel.Timer, rate, retries int) (done <-chan struct{}) {
	var wg sync.WaitGroup
	wg.Go(func() {
		bursts(ctx, rate, func() {
			timeout, err := rpc.AfterFunc(rpcTimeout, func() {})
			if err != nil || rand.Float64() < lost {
				return
			}
			// A timeout of the other timer is the reply, so that no request needs a goroutine.
			_, _ = retry.AfterFunc(rand.N(50*time.Millisecond), func() { timeout.Cancel() })
		})
	})
	wg.Go(func() {
		bursts(ctx, retries, func() {
			_, _ = retry.AfterFunc(rand.N(10*time.Second), func() { time.Sleep(rand.N(retryTask)) })
		})
	})
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	return ended
}

// bursts calls f perSecond times a second, in bursts.
func bursts(ctx context.Context, perSecond int, f func()) {
	ticker := time.NewTicker(burstEvery)
	defer ticker.Stop()
	start, made := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for due := int(now.Sub(start).Seconds() * float64(perSecond)); made < due; made++ {
				f()
			}
		}
	}
}
