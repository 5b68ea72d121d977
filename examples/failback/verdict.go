package main

import (
	"fmt"
	"time"
)

// A life is what a provider knows of its lease and its own end.
type life struct {
	accepted time.Time // when it sent the last request that the registry accepted
	stopping time.Time // when it began to stop; zero if it has not
	stopped  time.Time // when no request of its own was under way any more
}

// An expiry is the end of a lease that was not renewed.
type expiry struct {
	name string
	at   time.Time
}

// A verdict is what is to be said about the expiries of a run.
type verdict struct {
	rightly     int
	wrongly     []string      // one line for each that should not have been, or was not when it should
	first, last time.Duration // of the right ones: from the end of the provider to that of its lease
}

// judge says of each lease that expired whether it did so rightly: once, and of a provider that
// had begun to stop; not before a TTL after that sent the last request which was accepted; and not
// later than a TTL and allowance after it had stopped. If the run is complete, each provider that was
// stopped must be among them.
//
// So a lease of a live provider must not expire at all. It cannot before the registry has been up
// for a TTL, and what a registry forgets when it crashes does not expire.
func judge(ttl, allowance time.Duration, lives map[string]life, expiries []expiry, complete bool) (v verdict) {
	wrong := func(format string, args ...any) { v.wrongly = append(v.wrongly, fmt.Sprintf(format, args...)) }
	seen := make(map[string]bool)
	for _, e := range expiries {
		l, known := lives[e.name]
		if !known || l.stopping.IsZero() || e.at.Before(l.stopping) {
			wrong("the lease of %s expired, who had not been stopped", e.name)
			continue
		}
		held, after := e.at.Sub(l.accepted), e.at.Sub(l.stopped)
		switch {
		case seen[e.name]:
			wrong("the lease of %s expired twice", e.name)
		case held < ttl:
			wrong("the lease of %s expired %v after it was renewed: early by %v", e.name, held, ttl-held)
		case l.stopped.IsZero() || after > ttl+allowance:
			wrong("the lease of %s expired %v after it had stopped: late by %v", e.name, after, after-ttl)
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
			wrong("the lease of %s, who was stopped, has not expired", name)
		}
	}
	return v
}
