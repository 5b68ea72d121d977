package hashedwheel

import (
	"slices"
	"sync"
	"weak"
)

// maxInstances is the number of timers above which a program is warned: it probably makes one for
// each connection or call, instead of one for all.
const maxInstances = 64

// instances are the timers of the program, as far as somebody holds on to them.
var instances struct {
	mu     sync.Mutex
	all    []weak.Pointer[Timer] // may have some that have been stopped, or are not there any more
	warned bool                  // then nobody counts any longer
}

// countInstance warns, once, if there are too many timers.
func (t *Timer) countInstance() {
	if tooManyInstances(t) {
		t.log().Warn("hashedwheel: the program has made many timers, of which one is enough",
			"timers", maxInstances+1)
	}
}

// tooManyInstances adds a timer, and reports whether there are too many for the first time.
func tooManyInstances(t *Timer) bool {
	in := &instances
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.warned {
		return false
	}
	in.all = append(in.all, weak.Make(t))
	if len(in.all) <= maxInstances {
		return false
	}
	in.all = slices.DeleteFunc(in.all, func(p weak.Pointer[Timer]) bool {
		t := p.Value()
		return t == nil || t.IsStopped()
	})
	if len(in.all) <= maxInstances {
		return false
	}
	in.warned, in.all = true, nil
	return true
}
