package keyed

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// Limits by key: with a Map, and with package time and a map under a lock, which a program with package time needs.
func BenchmarkMap(b *testing.B) {
	const keys, limit = 100_000, 30 * time.Second
	timer, err := hashedwheel.New()
	if err != nil {
		b.Fatal(err)
	}
	defer timer.Stop()
	m := New[int, int](timer, nil)
	nop := func() {}
	type entry struct {
		value int
		timer *time.Timer
	}
	var mu sync.Mutex
	entries := map[int]*entry{}
	for i := range keys {
		if err := m.Set(i, i, limit); err != nil {
			b.Fatal(err)
		}
		entries[i] = &entry{i, time.AfterFunc(limit, nop)}
	}
	defer func() {
		for _, e := range entries {
			e.timer.Stop()
		}
	}()
	for _, op := range []struct {
		name string
		f    func(key int)
	}{
		{"op=touch/impl=wheel", func(key int) { m.Touch(key, limit) }},
		{"op=touch/impl=time", func(key int) {
			mu.Lock()
			defer mu.Unlock()
			if e := entries[key]; e != nil {
				e.timer.Reset(limit)
			}
		}},
		{"op=set/impl=wheel", func(key int) { m.Set(key, 1, limit) }},
		{"op=set/impl=time", func(key int) {
			mu.Lock()
			defer mu.Unlock()
			if e := entries[key]; e != nil {
				e.value = 1
				e.timer.Reset(limit)
			}
		}},
		{"op=get/impl=wheel", func(key int) { m.Get(key) }},
		{"op=get/impl=time", func(key int) {
			mu.Lock()
			defer mu.Unlock()
			_ = entries[key].value
		}},
		{"op=setremove/impl=wheel", func(key int) {
			m.Set(-1-key, 1, limit)
			m.Remove(-1 - key)
		}},
		{"op=setremove/impl=time", func(key int) {
			mu.Lock()
			entries[-1-key] = &entry{1, time.AfterFunc(limit, nop)}
			mu.Unlock()
			mu.Lock()
			if e := entries[-1-key]; e != nil {
				e.timer.Stop()
				delete(entries, -1-key)
			}
			mu.Unlock()
		}},
	} {
		b.Run(fmt.Sprintf("keys=%d/mode=serial/%s", keys, op.name), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 7919) % keys
				op.f(i)
			}
		})
		b.Run(fmt.Sprintf("keys=%d/mode=parallel/%s", keys, op.name), func(b *testing.B) {
			b.ReportAllocs()
			var n atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				i := int(n.Add(1)) * keys / 2
				for pb.Next() {
					i = (i + 7919) % keys
					op.f(i)
				}
			})
		})
	}
}

// Update by goroutines that share one key, or have a key each. The f of add takes no time, and that of yield gives up the
// processor.
func BenchmarkUpdate(b *testing.B) {
	timer, err := hashedwheel.New()
	if err != nil {
		b.Fatal(err)
	}
	defer timer.Stop()
	m := New[int, int](timer, nil)
	for _, goroutines := range []int{1, 64} {
		for i := range goroutines {
			if err := m.Set(i, 0, time.Hour); err != nil {
				b.Fatal(err)
			}
		}
		for _, keys := range []int{1, goroutines}[:min(goroutines, 2)] {
			for _, op := range []struct {
				name string
				f    func(value int) int
			}{
				{"add", add1},
				{"yield", func(value int) int { runtime.Gosched(); return value + 1 }},
			} {
				b.Run(fmt.Sprintf("goroutines=%d/keys=%d/f=%s", goroutines, keys, op.name), func(b *testing.B) {
					b.ReportAllocs()
					var left atomic.Int64
					left.Store(int64(b.N))
					var all sync.WaitGroup
					for i := range goroutines {
						all.Go(func() {
							for left.Add(-1) >= 0 {
								m.Update(i%keys, op.f)
							}
						})
					}
					all.Wait()
				})
			}
		}
	}
}
