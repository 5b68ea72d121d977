package hashedwheel

import (
	"context"
	"runtime/pprof"
)

// The profiler labels of the library's goroutines, see WithName. A goroutine inherits the labels of the one
// that starts it, which may be any goroutine that arms a timeout. So each sets its own labels when it starts.
const (
	nameLabel = "hashedwheel"
	roleLabel = "hashedwheel.role" // not "role", which a program may use for its own goroutines
	noName    = "timer"            // nameLabel of a timer without a name
)

// labels are contexts that carry the profiler labels of a timer. Immutable after New.
type labels struct{ worker, runner context.Context }

// set makes the labels for a name.
func (l *labels) set(name string) {
	if name == "" {
		name = noName
	}
	with := func(role string) context.Context {
		return pprof.WithLabels(context.Background(), pprof.Labels(nameLabel, name, roleLabel, role))
	}
	l.worker, l.runner = with("worker"), with("runner")
}

// setLabels gives the calling goroutine the labels that a context carries.
func setLabels(ctx context.Context) { pprof.SetGoroutineLabels(ctx) }
