package work

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

func cacheKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("session:%08d", i)
	}
	return keys
}

func runCache(b *bench) {
	keys, values := cacheKeys(b.size()), make([]*peers.Value, 1024)
	for i := range values {
		values[i] = &peers.Value{Life: 10*time.Minute + rand.N(50*time.Minute)}
	}
	empty := heapBytes()
	b.doing("fill")
	for i, key := range keys {
		b.cache.Set(key, values[i%len(values)])
	}
	time.Sleep(pick(b, 2*time.Second, 200*ms)) // a cache may have a queue of what to do later
	b.set("bytes", (heapBytes()-empty)/float64(len(keys)))

	b.doing("measure")
	var lost atomic.Int64
	m := b.meter()
	n, took := loop(b.goroutines(), pick(b, 2*time.Second, 50*ms), func(g int) func() {
		random, i := rand.New(rand.NewPCG(1, uint64(g))), 0
		return func() {
			key := keys[random.IntN(len(keys))]
			if i++; i%4 == 0 {
				b.cache.Set(key, values[i/4%len(values)])
			} else if b.cache.Get(key) == nil {
				lost.Add(1)
			}
		}
	})
	b.set("rate", float64(n)/took.Seconds()/1e6)
	time.Sleep(300 * ms) // the same
	m.stop(n)
	if lost := lost.Load(); lost > 0 {
		b.failf("%d calls of Get did not find their keys", lost)
	}
	runtime.KeepAlive(keys)
}

// runCacheExpiry calls Get all the time while keys expire. The first key expires when all have been set, and the last one a
// second later. Get has to find a key before its deadline, and not after it, except for one tick. At the end, the cache must
// have dropped all keys by itself.
func runCacheExpiry(b *bench) {
	const spread = time.Second
	keys := cacheKeys(b.size())
	due, latest := make([]time.Time, len(keys)), make([]time.Time, len(keys)) // latest counts from the return of Set
	first := time.Now().Add(pick(b, 10*time.Second, 3*time.Second))
	for i, key := range keys {
		if i%1000 == 0 {
			b.doing("%d of %d set", i, len(keys))
		}
		due[i] = first.Add(rand.N(spread))
		life := time.Until(due[i])
		b.cache.Set(key, &peers.Value{Life: life})
		latest[i] = time.Now().Add(life)
	}
	if time.Now().After(first) {
		b.failf("took too long to set the keys")
		return
	}
	runtime.GC() // so that no collection of what came before counts
	time.Sleep(time.Until(first))

	b.doing("get")
	m := b.meter()
	longest, calls, early, late := time.Duration(0), 0, 0, 0
	for end := first.Add(2 * spread); time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
		i := rand.IntN(len(keys))
		before := time.Now()
		found := b.cache.Get(keys[i]) != nil
		after := time.Now()
		calls++
		longest = max(longest, after.Sub(before))
		if !found && after.Before(due[i]) {
			early++
		}
		if found && before.After(latest[i].Add(b.work.tick)) {
			late++
		}
	}
	m.stop(len(keys))
	if calls == 0 {
		b.failf("came too late to see the keys expire")
		return
	}
	b.set("longest", float64(longest)/1e6)
	b.set("peak", used().peak/1e6)
	if early > 0 {
		b.failf("early: %d calls of Get did not find their keys", early)
	}
	if late > 0 {
		b.failf("late: %d calls of Get found a key more than a tick after its deadline", late)
	}
	b.doing("wait until all keys are gone")
	left := b.cache.Len()
	for end := time.Now().Add(pick(b, 20*time.Second, 3*time.Second)); left > 0 && time.Now().Before(end); left = b.cache.Len() {
		time.Sleep(200 * ms) // Len may look at each key
	}
	if left > 0 {
		b.failf("%d of %d keys are still in memory", left, len(keys))
	}
}
