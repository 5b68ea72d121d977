package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A fleetReport is the result of the second part.
type fleetReport struct {
	opts     options
	bound    time.Duration // on the time to publish all: a renewal interval, two ticks and -grace
	complete bool          // not interrupted

	allPublished bool
	publishedIn  time.Duration

	restarted   bool
	lost        int
	downFor     time.Duration
	failedDown  int64 // renewals that failed while the registry was down
	allBack     bool
	backIn      time.Duration
	republished int64

	stopped  int
	lives    map[string]life // before the live providers left
	listed   int             // providers that a consumer saw at that time
	unlisted int             // live providers that it did not see, or that had no lease when they left
	left     int             // leases that remained after all providers had left
	verdict  verdict

	published, renewed, failed int64

	renewing int // renewals still pending at the end
	timer    hashedwheel.Stats
}

// check returns an error that names each check that fails.
func (r *fleetReport) check() error {
	var errs []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for i, line := range r.verdict.wrongly {
		if i == 3 {
			errs = append(errs, fmt.Errorf("and %d more leases", len(r.verdict.wrongly)-i))
			break
		}
		errs = append(errs, errors.New(line))
	}
	must(r.timer.Running == 0, "the timer of the providers has been shut down, but %d tasks are running", r.timer.Running)
	must(r.timer.Panics == 0, "%d tasks of the providers panicked", r.timer.Panics)
	if !r.complete {
		return errors.Join(errs...)
	}
	must(r.allPublished && r.publishedIn <= r.bound, "not all providers were published within %v: it took %v or more", millis(r.bound), millis(r.publishedIn))
	must(r.allBack && r.backIn <= r.bound, "not all providers were back within %v: it took %v or more", millis(r.bound), millis(r.backIn))
	live := r.opts.providers - r.stopped
	must(r.lost == r.opts.providers, "the registry lost %d registrations of %d", r.lost, r.opts.providers)
	must(r.listed == live && r.unlisted == 0, "a consumer saw %d providers, and missed %d of the %d live ones", r.listed, r.unlisted, live)
	must(r.left == 0, "all providers have left, but the registry holds %d leases", r.left)
	must(r.verdict.rightly == r.stopped, "%d providers were stopped, but %d leases expired rightly", r.stopped, r.verdict.rightly)
	must(r.renewing == 0, "all providers have left, but %d still renew their leases", r.renewing)
	return errors.Join(errs...)
}

func (r *fleetReport) print(w io.Writer) {
	o := r.opts
	how := "on leases of %v, published in %v"
	if !r.allPublished {
		how = "on leases of %v, not all published in %v"
	}
	count(w, "providers", o.providers, fmt.Sprintf(how, o.ttl, millis(r.publishedIn)))
	count(w, "renewals", int(r.renewed), fmt.Sprintf("every %v; %s more failed while the registry was down, %s otherwise",
		millis(o.ttl/3), commas(int(r.failedDown)), commas(int(r.failed-r.failedDown))))
	if r.restarted {
		count(w, "lost", r.lost, fmt.Sprintf("leases, by a restart of the registry, which was down for %v", millis(r.downFor)))
		how = "all within %v after the registry was up (bound %v)"
		if !r.allBack {
			how = "not all within %v after the registry was up (bound %v)"
		}
		count(w, "published again", int(r.republished), fmt.Sprintf(how, millis(r.backIn), millis(r.bound)))
	}
	count(w, "stopped", r.stopped, "without telling the registry")
	note := "leases of live providers must not expire"
	if v := r.verdict; v.rightly > 0 {
		note = fmt.Sprintf("%v to %v after the stop (bound %v)", millis(v.first), millis(v.last), millis(o.ttl+o.tick+o.grace))
	}
	count(w, "expired rightly", r.verdict.rightly, note)
	count(w, "expired wrongly", len(r.verdict.wrongly), "")
	if !r.complete {
		fmt.Fprintln(w, "(interrupted)")
	}
}
