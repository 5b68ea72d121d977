package main

import (
	"fmt"
	"time"
)

// A life is what a provider records about its lease and its own end.
type life struct {
	accepted time.Time // when the provider sent the last request that the registry accepted
	stopping time.Time // when it began to stop; zero if it did not
	stopped  time.Time // when none of its requests was in progress any more
}

// An expiry is the end of a lease that was not renewed.
type expiry struct {
	name string
	at   time.Time
}

// A verdict counts the leases of a run that expired rightly, and names the others.
type verdict struct {
	rightly     int
	wrongly     []string      // one line for each lease that expired at a wrong time or did not expire
	first, last time.Duration // from the end of a provider to the end of its lease: the least and the greatest
}

// judge checks each lease that expired. It expires rightly if all of this holds:
//
//   - The lease expires once, and its provider had begun to stop.
//   - It expires no sooner than a TTL after the provider sent its last accepted request.
//   - It expires no later than a TTL and allowance after the provider had stopped.
//
// If the run is complete, the lease of each stopped provider must have expired.
//
// So a lease of a live provider must not expire at all. No lease can expire before the registry has been up
// for a TTL, and a lease that is lost in a crash does not expire.
func judge(ttl, allowance time.Duration, lives map[string]life, expiries []expiry, complete bool) (v verdict) {
	wrong := func(format string, args ...any) { v.wrongly = append(v.wrongly, fmt.Sprintf(format, args...)) }
	seen := make(map[string]bool)
	for _, e := range expiries {
		l, known := lives[e.name]
		if !known || l.stopping.IsZero() || e.at.Before(l.stopping) {
			wrong("the lease of %s expired, but the provider was not stopped", e.name)
			continue
		}
		held, after := e.at.Sub(l.accepted), e.at.Sub(l.stopped)
		switch {
		case seen[e.name]:
			wrong("the lease of %s expired twice", e.name)
		case held < ttl:
			wrong("the lease of %s expired %v after it was renewed: early by %v", e.name, held, ttl-held)
		case l.stopped.IsZero() || after > ttl+allowance:
			wrong("the lease of %s expired %v after the provider had stopped: late by %v", e.name, after, after-ttl)
		default:
			if v.rightly == 0 || after < v.first {
				v.first = after
			}
			v.last = max(v.last, after)
			v.rightly++
		}
		seen[e.name] = true
	}
	for name, l := range lives {
		if complete && !l.stopping.IsZero() && !seen[name] {
			wrong("provider %s was stopped, but its lease has not expired", name)
		}
	}
	return v
}
