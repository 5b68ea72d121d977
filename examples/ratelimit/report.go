package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// print prints how many calls the limiters received, and how many they made.
func (l *limiters) print(w io.Writer) {
	o := l.opts
	fmt.Fprintf(w, "%-10s %12s %12s %9s %10s %12s\n", "", "received", "made", "saved", "too soon", "last missed")
	for _, a := range []*audit{l.throttled, l.debounced} {
		fmt.Fprintf(w, "%-10s %12s %12s %7.1f %% %10s %12s\n", a.name, commas(a.asks), commas(a.made),
			100*float64(a.asks-a.made)/float64(max(a.asks, 1)), commas(a.tooSoon), commas(a.missed()))
	}
	fmt.Fprintf(w, "\nthrottle: at most one call for each key in %v", o.interval)
	if o.trailing {
		fmt.Fprint(w, ", and the last call when this time ends")
	}
	fmt.Fprintf(w, "\ndebounce: one call when a key has been quiet for %v", o.quiet)
	if o.maxWait > 0 {
		fmt.Fprintf(w, ", or has waited for %v", o.maxWait)
	}
	fmt.Fprintln(w)
}

// check returns an error that names each check that fails. The limiters must have
// been drained.
func (l *limiters) check() error {
	var errs []error
	for _, a := range []*audit{l.throttled, l.debounced} {
		must := func(n int64, what string) {
			if n != 0 {
				errs = append(errs, fmt.Errorf("%s: %s %s", a.name, commas(n), what))
			}
		}
		must(a.tooSoon, "calls were made too soon")
		must(a.twice(), "calls were made twice for one event")
		must(a.missed(), "keys were not called with their last event")
	}
	if kept, waiting := l.throttle.Kept(), l.debounce.Waiting(); kept+waiting > 0 {
		errs = append(errs, fmt.Errorf("after the end, the throttle still keeps %d calls, and the debounce still delays %d", kept, waiting))
	}
	return errors.Join(errs...)
}

// commas writes a number that is not negative with a comma before each group
// of three digits.
func commas(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
