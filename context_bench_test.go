package hashedwheel

import (
	"context"
	"testing"
	"time"
)

// A context made for what is done with most: it is canceled long before its deadline, asked for
// Done, given a child, or left to expire. The last is by the thousand, since it takes as long as
// the timeout: only its allocations tell something.
func BenchmarkContext(b *testing.B) {
	parents := []struct {
		name string
		make func() (context.Context, context.CancelFunc)
	}{
		{"background", func() (context.Context, context.CancelFunc) { return context.Background(), func() {} }},
		{"cancelable", func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) }},
	}
	type withTimeout func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	uses := []struct {
		name string
		use  func(b *testing.B, with withTimeout, parent context.Context)
	}{
		{"cancel", func(b *testing.B, with withTimeout, parent context.Context) {
			for b.Loop() {
				_, cancel := with(parent, time.Minute)
				cancel()
			}
		}},
		{"done", func(b *testing.B, with withTimeout, parent context.Context) {
			for b.Loop() {
				ctx, cancel := with(parent, time.Minute)
				ctx.Done()
				cancel()
			}
		}},
		{"child", func(b *testing.B, with withTimeout, parent context.Context) {
			for b.Loop() {
				ctx, cancel := with(parent, time.Minute)
				_, cancelChild := context.WithCancel(ctx)
				cancelChild()
				cancel()
			}
		}},
		{"timeout", func(b *testing.B, with withTimeout, parent context.Context) {
			const batch = 1000
			all := make([]context.Context, batch)
			cancels := make([]context.CancelFunc, batch)
			for n := 0; n < b.N; n += batch {
				for i := range all {
					all[i], cancels[i] = with(parent, time.Millisecond)
				}
				for i, ctx := range all {
					<-ctx.Done()
					cancels[i]()
				}
			}
		}},
	}
	for _, parent := range parents {
		for _, use := range uses {
			run := func(impl string, with func(b *testing.B) withTimeout) {
				b.Run("parent="+parent.name+"/use="+use.name+"/impl="+impl, func(b *testing.B) {
					ctx, cancel := parent.make()
					defer cancel()
					with := with(b)
					b.ReportAllocs()
					b.ResetTimer()
					use.use(b, with, ctx)
				})
			}
			run("wheel", func(b *testing.B) withTimeout {
				var opts []Option
				if use.name == "timeout" {
					opts = []Option{WithTick(time.Millisecond)}
				}
				return newTimer(b, opts...).WithTimeout
			})
			run("context", func(*testing.B) withTimeout { return context.WithTimeout })
		}
	}
}
