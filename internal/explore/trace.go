package explore

import (
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
)

// compare checks that an execution has reached the same state as an earlier execution after the same
// steps.
func (n *node) compare(r *Run) error {
	now := r.ops()
	same := slices.EqualFunc(n.ops, now, func(a, b *op) bool {
		if a == nil || b == nil {
			return a == b
		}
		return a.kind == b.kind && a.pcs == b.pcs && slices.Equal(a.touches, b.touches)
	})
	if same {
		return nil
	}
	return fmt.Errorf("the executions differ after the same steps:\nan earlier one:\n%sthis one:\n%s",
		describeOps(n.ops), describeOps(now))
}

func describeOps(ops []*op) string {
	var b strings.Builder
	for i, o := range ops {
		if o != nil {
			fmt.Fprintf(&b, "  g%d: %v\n", i, o)
		}
	}
	return b.String()
}

// describe lists the steps of an execution in their order. If time passes more than twice in a row,
// it shows only the first two passes.
func (r *Run) describe() string {
	var b strings.Builder
	b.WriteString("the steps: goroutine (g0 is time, then come the racers), operation,\n" +
		"addresses (r read, w written, + added to), place:\n")
	for i, e := range r.trace {
		if again := i > 1 && e.index == 0 && r.trace[i-1].index == 0 && r.trace[i-2].index == 0; !again {
			fmt.Fprintf(&b, "%4d  %sg%d %v\n", i, strings.Repeat("  ", e.index), e.index, e.op)
		}
	}
	b.WriteString(r.waiting)
	return b.String()
}

// Locked returns the operations of a goroutine in the race that lock a cache line or a mutex, each with its
// place in the source. The racers are 1, 2 and so on. 0 stands for all goroutines.
func (r *Run) Locked(goroutine int) (all []string) {
	for _, e := range r.trace {
		switch e.op.kind {
		case "Store", "Swap", "Add", "And", "Or", "CompareAndSwap", "Lock":
			if goroutine == 0 || e.index == goroutine {
				all = append(all, e.op.kind+" "+e.op.at())
			}
		}
	}
	return all
}

var accessNames = [...]string{load: "r", add: "+", write: "w"}

func (o *op) String() string {
	var b strings.Builder
	b.WriteString(o.kind)
	for _, t := range o.touches {
		fmt.Fprintf(&b, " #%d%s", t.label, accessNames[t.access])
	}
	if at := o.at(); at != "" {
		b.WriteString("  " + at)
	}
	return b.String()
}

// at returns the place of an operation in the source.
func (o *op) at() string {
	for frames := runtime.CallersFrames(o.pcs[:]); ; {
		f, more := frames.Next()
		if f.PC == 0 || strings.HasPrefix(f.Function, "runtime.") {
			return ""
		}
		file := filepath.Base(f.File)
		shim := reflect.TypeFor[op]().PkgPath()
		if !strings.HasPrefix(f.Function, shim+".") || strings.HasSuffix(file, "_test.go") {
			name := f.Function[strings.LastIndexByte(f.Function, '/')+1:]
			return fmt.Sprintf("%s:%d %s", file, f.Line, name[strings.IndexByte(name, '.')+1:])
		}
		if !more {
			return ""
		}
	}
}
