// The program that the browser runs: it gives the functions of wheel.go to the page.
package main

import (
	"syscall/js"
	"time"
)

func main() {
	var w *wheel
	js.Global().Set("hashedwheel", map[string]any{
		"start": function(func(...js.Value) any {
			if w != nil {
				w.stop()
			}
			var err error
			if w, err = newWheel(); err != nil {
				panic(err) // an option is wrong
			}
			return nil
		}),
		"arm": function(func(args ...js.Value) any {
			return w.armTick(args[0].Int(), time.Duration(args[1].Int())*time.Millisecond)
		}),
		"cancel": function(func(args ...js.Value) any { return w.cancel(args[0].Int()) }),
		"load": function(func(args ...js.Value) any {
			w.rate, w.share = args[0].Float(), args[1].Float()
			return nil
		}),
		"frame": function(func(...js.Value) any { return object(w.frame()) }),
	})
	select {} // the page calls the functions
}

func function(f func(args ...js.Value) any) js.Func {
	return js.FuncOf(func(_ js.Value, args []js.Value) any { return f(args...) })
}

func object(f frame) map[string]any {
	counts := make([]any, buckets)
	for i := range counts {
		counts[i] = 0
	}
	for i, n := range f.buckets {
		counts[i] = n
	}
	var events []any
	for _, e := range f.events {
		events = append(events, map[string]any{"kind": e.kind, "id": e.id, "tick": e.tick, "late": millis(e.late)})
	}
	return map[string]any{
		"now": f.now, "buckets": counts, "events": events, "early": f.early,
		"pending": f.stats.Pending, "fired": f.stats.Expired, "canceled": f.stats.Canceled, "running": f.stats.Running,
		"measured": f.lateness.Count(), "most": millis(f.lateness.Quantile(0.99)),
	}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
