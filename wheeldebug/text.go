package wheeldebug

import (
	"bytes"
	"fmt"
	"regexp"
	"text/tabwriter"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/logtext"
)

// writeText returns the page as text. The commands on it use the host of the request.
func writeText(p *page, host string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, made in %v\n", p.At.Format(time.RFC3339), logtext.Duration(p.Took))
	for i := range p.Timers {
		p.Timers[i].write(&b, p.At)
	}
	writeCommands(&b, host)
	return b.Bytes()
}

// write writes the text about a timer: its counts, and the table of what is pending.
func (tp *timerPage) write(b *bytes.Buffer, now time.Time) {
	st, since := &tp.Stats, &tp.Since
	fmt.Fprintf(b, "\n%s\n", tp.Timer)
	fmt.Fprintf(b, "pending %d, of these due and not started %d; running %d, runners %d, queued %d\n",
		st.Pending, st.Due, st.Running, st.Runners, st.Queued)
	if st.KeysWaiting > 0 {
		fmt.Fprintf(b, "keys that wait for keyed.WithConcurrency %d\n", st.KeysWaiting)
	}
	if st.Stuck > 0 {
		fmt.Fprintf(b, "calls that should return soon, in progress for a minute or more %d\n", st.Stuck)
	}
	for i, l := range st.Levels {
		fmt.Fprintf(b, "level %d: %d timeouts in %d buckets\n", i, l.Timeouts, l.Occupied)
	}
	fmt.Fprintf(b, "\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "total\ta second\t since the last page, %v before\n", logtext.Duration(max(since.Duration, 0)))
	for _, c := range []struct {
		name         string
		total, since uint64
	}{
		{"accepted", st.Accepted, since.Accepted},
		{"expired", st.Expired, since.Expired},
		{"canceled", st.Canceled, since.Canceled},
		{"returned by Stop", st.Returned, since.Returned},
		{"rejected: full", st.RejectedFull, since.RejectedFull},
		{"rejected: stopped", st.RejectedStopped, since.RejectedStopped},
		{"panics", st.Panics, since.Panics},
		{"not taken by the executor", st.Unsubmitted, since.Unsubmitted},
		{"wake-ups", st.Wakeups, since.Wakeups},
	} {
		fmt.Fprintf(w, "%d\t%.1f\t %s\n", c.total, float64(c.since)/max(since.Duration, 1).Seconds(), c.name)
	}
	w.Flush()
	fmt.Fprintf(b, "lateness in all: %v\nlateness since:  %v\n\n", st.Lateness, since.Lateness)

	if len(tp.Running) > 0 {
		fmt.Fprint(w, "running\tfor at least\tdue\t task\n")
		for _, r := range tp.Running {
			due, what := "", ""
			if !r.Due.IsZero() {
				due = until(r.Due.Sub(now))
			}
			if r.What != "" {
				what = " (" + r.What + ")"
			}
			fmt.Fprintf(w, "%d\t%v\t%s\t %s%s%s\n", r.Running, logtext.Duration(r.AtLeast), due, r.Task, what, repeats(r.Repeating))
		}
		w.Flush()
		fmt.Fprintf(b, "\n")
	}
	total := 0
	for _, r := range tp.Tasks {
		total += r.Pending
	}
	fmt.Fprint(w, "pending\tshare\tdue\t1 min\t10 min\t1 h\tlater\tnext\tlast\t task\n")
	for _, r := range tp.Tasks {
		fmt.Fprintf(w, "%d\t%.1f %%\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t %s%s\n", r.Pending, 100*float64(r.Pending)/float64(total),
			r.Due, r.Minute, r.TenMinutes, r.Hour, r.Later, until(r.Next.Sub(now)), until(r.Last.Sub(now)), r.Task, repeats(r.Repeating))
	}
	w.Flush()
	if len(tp.Tasks) > 0 {
		fmt.Fprint(b, "last - next is the age of the oldest, where the timeouts of a row have one delay\n")
	}
}

func repeats(repeating bool) string {
	if repeating {
		return " (repeating)"
	}
	return ""
}

// until says how far off a deadline is. That of a timeout that never expires is 292 years after the start of its timer.
func until(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return logtext.Duration(-d).String() + " ago"
	case d > 200*365*day:
		return "never"
	case d > 10*day:
		return fmt.Sprintf("in %d days", d/day)
	}
	if d > time.Minute {
		return "in " + d.Round(time.Second).String()
	}
	return "in " + logtext.Duration(d).String()
}

var plainHost = regexp.MustCompile(`^[\w.:\[\]-]+$`)

// writeCommands writes the commands that find where the timeouts come from, and where tasks hang.
func writeCommands(b *bytes.Buffer, host string) {
	if !plainHost.MatchString(host) { // because the operator copies the line into a shell
		host = "HOST"
	}
	fmt.Fprintf(b, `
Which functions have armed what is pending, and where tasks hang, if net/http/pprof is at its usual place:
go tool pprof -sample_index=inuse_objects -focus '%s' -hide '%s' -top 'http://%s/debug/pprof/heap?gc=1'
curl -s 'http://%[3]s/debug/pprof/goroutine?debug=1' | %[4]s
`, arms, hidden, host, hanging)
}

// Functions in a heap profile. Those of arms allocate a timeout, or the struct that holds it. Those of hidden are all of
// the library, and of the runtime.
const (
	arms   = `Timer..newTimeout$|Group..start$|keyed.*[.]add$|Clock..(AfterFunc|NewTimer|NewTicker)$|idle.*[.]Conn$`
	hidden = `/hashedwheel[./]|^runtime`
)

// hanging finds the goroutines of timers in a goroutine profile as text. A paragraph has the goroutines with the same stack.
// Goroutines of timers have labels. The command also finds two kinds without labels. Calls of an executor's submit may block.
// Goroutines that wait in WaitRunning or Shutdown may be tasks on an executor, or hold what other tasks wait for.
const hanging = `awk -v RS= -v ORS='\n\n' '/"hashedwheel":|hashedwheel[.]await[+]|keyed.*[.]WaitRunning[+]|[.]submitOne[+]/'`
