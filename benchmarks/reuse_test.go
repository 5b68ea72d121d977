package main

import (
	"strings"
	"testing"
)

// The workloads about kept timeouts give all the figures of their tables, for the peers that keep timeouts. Kept
// timeouts are not allocated again, except in the RPC mix, because a garbage collection empties the pool.
func TestReuse(t *testing.T) {
	for _, w := range workloads {
		if !w.rearms {
			continue
		}
		for _, p := range w.peers() {
			if !p.kept || p.about == "" { // a fake has no about
				continue
			}
			t.Run(w.name+"/"+p.name, func(t *testing.T) {
				out := testFigures(t, w, p.name)
				if b := out.Metrics["allocated"]; !strings.HasPrefix(w.name, "rpc") && b > 24 {
					t.Errorf("%v B/op: a new one each time", b)
				}
			})
		}
	}
}

// A peer that is only for kept timeouts is a keeper. The others make a new timeout each time.
func TestKeepers(t *testing.T) {
	for _, p := range peers {
		if !p.rearms {
			continue
		}
		timer := p.make(options{tick: wheelsTick, horizon: hour})
		if _, ok := timer.(keeper); ok != p.kept {
			t.Errorf("%s: a keeper: %v", p.name, ok)
		}
		if _, ok := timer.(deadliner); ok != (p.name == "hashedwheel, deadline") {
			t.Errorf("%s: takes deadlines: %v", p.name, ok)
		}
		timer.Stop()
	}
}
