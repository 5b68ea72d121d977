package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// How the load behaves.
const (
	burstEvery = 10 * time.Millisecond
	rpcTimeout = 3 * time.Second
	lost       = 0.01 // the part of the replies that never come
	retryTask  = 20 * time.Millisecond
)

// load has requests made, each with a timeout on rpc, until the context is done: most replies come within
// 50 ms, and then the timeout is canceled. Retries run on the other timer after up to ten seconds, and
// take some time, as a call would. The channel is closed when it has ended.
func load(ctx context.Context, rpc, retry *hashedwheel.Timer, rate, retries int) (done <-chan struct{}) {
	var wg sync.WaitGroup
	wg.Go(func() {
		bursts(ctx, rate, func() {
			timeout, err := rpc.AfterFunc(rpcTimeout, func() {})
			if err != nil || rand.Float64() < lost {
				return
			}
			// The reply comes by a timeout of the other timer, so that this load needs no goroutine for each.
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

// bursts calls f so many times a second, in bursts.
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
