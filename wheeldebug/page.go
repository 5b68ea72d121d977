package wheeldebug

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/due"
)

// A page is what a handler serves. Durations are in nanoseconds.
type page struct {
	At     time.Time
	Took   time.Duration // to make the page
	Timers []timerPage
}

// A timerPage is the part of a page about one timer.
type timerPage struct {
	Name    string
	Timer   string // Timer.String, which has the options
	Tick    time.Duration
	Stopped bool
	Stats   hashedwheel.Stats
	Since   changes
	Running []runs // by how many run; in all about Stats.Running
	Tasks   []row  // by how many are pending; in all about Stats.Pending
}

// changes is how much the counts in Stats have changed since the last page.
type changes struct {
	Duration                                           time.Duration
	Accepted, Expired, Canceled, Returned              uint64
	RejectedFull, RejectedStopped, Panics, Unsubmitted uint64
	Wakeups                                            uint64
	Lateness                                           hashedwheel.Histogram
}

func changesOf(last, now hashedwheel.Stats, d time.Duration) changes {
	return changes{
		Duration:        d,
		Accepted:        now.Accepted - last.Accepted,
		Expired:         now.Expired - last.Expired,
		Canceled:        now.Canceled - last.Canceled,
		Returned:        now.Returned - last.Returned,
		RejectedFull:    now.RejectedFull - last.RejectedFull,
		RejectedStopped: now.RejectedStopped - last.RejectedStopped,
		Panics:          now.Panics - last.Panics,
		Unsubmitted:     now.Unsubmitted - last.Unsubmitted,
		Wakeups:         now.Wakeups - last.Wakeups,
		Lateness:        now.Lateness.Sub(last.Lateness),
	}
}

// A runs counts the calls in progress of the same function, or of a method of the same type: tasks, or what What says.
type runs struct {
	Task      string
	What      string // "" for a task; "Next", "Canceled", "panic handler" or "submit"
	Repeating bool
	Running   int

	// How long one of them has run, at least: since the first page that has seen it, or since the timer itself has.
	AtLeast time.Duration

	// When the first of their timeouts was due. So no task has run for longer, unless its timeout was reset since it started. Zero
	// for submit.
	Due time.Time
}

// A row counts the pending timeouts whose task is the same function, or has the same type.
type row struct {
	Task      string
	Repeating bool
	Pending   int

	// Pending, by the time until the deadline. Each counts once.
	Due, Minute, TenMinutes, Hour, Later int

	Next, Last time.Time // the first and the last deadline
}

// A kind is what timeouts of one row have in common. To find it makes no garbage, because a page asks for that of each timeout.
type kind struct {
	of        reflect.Type
	code      uintptr // the entry of a function, or what tells tasks of the library of one type apart
	repeating bool
	what      string // in progress: see runs
}

func kindOf(task any, repeating bool) kind {
	k := kind{of: reflect.TypeOf(task), repeating: repeating}
	if k.of.Kind() == reflect.Func {
		k.code = reflect.ValueOf(task).Pointer()
	} else if own, ok := task.(interface{ Kind() uintptr }); ok && ofLibrary(k.of) {
		k.code = own.Kind()
	}
	return k
}

var library = reflect.TypeFor[hashedwheel.Timer]().PkgPath()

var packages = []string{library, library + "/clock", library + "/idle", library + "/keyed"}

// ofLibrary reports whether a type is one of the library, or a pointer to one. The methods of another type may reveal its fields.
func ofLibrary(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return slices.Contains(packages, t.PkgPath())
}

// runsOf returns what is running.
func runsOf(t *hashedwheel.Timer) (all []runs) {
	rows := make(map[kind]*runs)
	due.Root.EachCall(t, func(c due.Call) {
		k := kindOf(c.Of, c.Repeats)
		k.what = c.What
		r := rows[k]
		if r == nil {
			r = &runs{Task: k.name(c.Of), What: c.What, Repeating: c.Repeats, Due: c.At}
			rows[k] = r
		}
		r.Running++
		r.AtLeast = max(r.AtLeast, c.AtLeast)
		if c.At.Before(r.Due) {
			r.Due = c.At
		}
	})
	for _, r := range rows {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b runs) int {
		return cmp.Or(b.Running-a.Running, cmp.Compare(a.Task, b.Task))
	})
	return all
}

func timerPageOf(t *hashedwheel.Timer, now time.Time) timerPage {
	rows := make(map[kind]*row)
	due.Root.Each(t, func(task any, at time.Time, repeating bool) bool {
		k := kindOf(task, repeating)
		r := rows[k]
		if r == nil {
			r = &row{Task: k.name(task), Repeating: repeating, Next: at, Last: at}
			rows[k] = r
		}
		r.add(at, now)
		return true
	})
	tp := timerPage{Name: t.Name(), Timer: t.String(), Tick: t.Tick(), Stopped: t.IsStopped(), Stats: t.Stats()}
	for _, r := range rows {
		tp.Tasks = append(tp.Tasks, *r)
	}
	slices.SortFunc(tp.Tasks, func(a, b row) int {
		return cmp.Or(b.Pending-a.Pending, cmp.Compare(a.Task, b.Task))
	})
	return tp
}

func (r *row) add(at, now time.Time) {
	r.Pending++
	switch left := at.Sub(now); {
	case left <= 0:
		r.Due++
	case left <= time.Minute:
		r.Minute++
	case left <= 10*time.Minute:
		r.TenMinutes++
	case left <= time.Hour:
		r.Hour++
	default:
		r.Later++
	}
	if at.Before(r.Next) {
		r.Next = at
	}
	if at.After(r.Last) {
		r.Last = at
	}
}

// name returns the name of a function, a method or a type, as profiles have it: with the path of its package. A task of the library
// says itself what it is. Task is one of the kind.
func (k kind) name(task any) string {
	method := ""
	if k.what == "Next" || k.what == "Canceled" {
		method = "." + k.what
	} else if own, ok := task.(fmt.Stringer); ok && ofLibrary(k.of) {
		return own.String()
	}
	switch {
	case k.of.Kind() == reflect.Func:
		return runtime.FuncForPC(k.code).Name() + method
	case k.of.Kind() == reflect.Pointer && k.of.Name() == "":
		return "*" + qualified(k.of.Elem()) + method
	}
	return qualified(k.of) + method
}

// qualified returns the name of a type with the path of its package.
func qualified(t reflect.Type) string {
	if t.PkgPath() == "" || t.Name() == "" {
		return t.String()
	}
	return t.PkgPath() + "." + t.Name()
}
