// Lease is a registry of services. A registration expires unless the host of the service renews it.
//
// Look at registry: each registration is a key of a keyed.Map, and Touch renews it. Then look at Run of service: it
// registers the service again when the registry does not know it any more. The renewals of a host are a Group, so they
// end together. Function run lets hosts die and the registry lose its memory.
package main

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"github.com/hashedwheel/hashedwheel/keyed"
)

// A registry has the addresses of services by their names.
type registry struct {
	ttl    time.Duration
	leases *keyed.Map[string, string]
}

// newRegistry returns an empty registry, which calls expired for each lease that is not renewed in time.
func newRegistry(timer *hashedwheel.Timer, ttl time.Duration, expired func(name, addr string)) *registry {
	return &registry{ttl, keyed.New(timer, expired)}
}

func (r *registry) register(name, addr string) error { return r.leases.Set(name, addr, r.ttl) }

// renew starts the lease anew. It reports false if there is none.
func (r *registry) renew(name string) bool {
	_, ok := r.leases.Touch(name, r.ttl)
	return ok
}

// A service is the task that renews its lease.
type service struct {
	name, addr string
	registry   *registry
}

// Run registers the service the first time, and when the registry has lost the lease.
func (s *service) Run(*hashedwheel.Timeout) {
	if !s.registry.renew(s.name) {
		s.registry.register(s.name, s.addr) // after an error, the next run tries again
	}
}

// start registers a service of a host, and renews its lease from now on. It does so at least twice in each lifetime, so
// that one renewal may fail. Jitter spreads the renewals of a host. Every drops missed renewals, so that those of a
// slow host do not follow one after another.
func (s *service) start(host *hashedwheel.Group) error {
	s.Run(nil)
	_, err := host.Schedule(s, hashedwheel.Jitter(hashedwheel.Every(s.registry.ttl/3), 0.5))
	return err
}

const perHost = 10 // services

// run starts hosts, lets some of them die, and then makes the registry lose its memory.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := demo.Flags("lease", "registers services, which expire unless they are renewed.")
	hosts := flags.Int("hosts", 100, "how many `hosts`, of which a tenth dies")
	ttl := flags.Duration("ttl", 1500*time.Millisecond, "the `lifetime` of a lease")
	if err := demo.Parse(flags, args, out); err != nil {
		return err
	}
	timer, err := hashedwheel.New(hashedwheel.WithTick(*ttl / 50))
	if err != nil {
		return err
	}
	defer timer.Stop()
	var expired atomic.Int64
	r := newRegistry(timer, *ttl, func(string, string) { expired.Add(1) })
	var all []*hashedwheel.Group
	for i := range *hosts {
		host := hashedwheel.NewGroup(timer)
		for j := range perHost {
			s := &service{fmt.Sprintf("service %d of host %d", j, i), fmt.Sprintf("host%d:%d", i, 8000+j), r}
			if err := s.start(host); err != nil {
				return err
			}
		}
		all = append(all, host)
	}
	dying := *hosts / 10
	lost, left := dying*perHost, (*hosts-dying)*perHost
	if err := timer.Sleep(ctx, 2**ttl); err != nil {
		return err
	}
	if n := r.leases.Len(); n != lost+left {
		return fmt.Errorf("%d services are registered, not %d", n, lost+left)
	}
	fmt.Fprintf(out, "%d services are registered, and renew their leases\n", lost+left)

	for _, host := range all[:dying] {
		host.Close() // the registry does not learn of it
	}
	took, err := r.wait(ctx, timer, left)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d services of %d hosts that died have expired within %v\n", lost, dying, took)

	r.leases.Clear()
	if took, err = r.wait(ctx, timer, left); err != nil {
		return err
	}
	fmt.Fprintf(out, "the registry has lost its memory: %d services have registered again within %v\n", left, took)

	if err := timer.Sleep(ctx, *ttl); err != nil { // time for others to expire
		return err
	}
	if n := expired.Load(); n != int64(lost) {
		return fmt.Errorf("%d services have expired, not %d", n, lost)
	}
	fmt.Fprintln(out, "no other service has expired")
	return nil
}

// wait waits for at most two lifetimes, until the registry has n leases, and returns how long that took.
func (r *registry) wait(ctx context.Context, timer *hashedwheel.Timer, n int) (time.Duration, error) {
	start := time.Now()
	for r.leases.Len() != n {
		if time.Since(start) > 2*r.ttl {
			return 0, fmt.Errorf("the registry has %d leases, not %d", r.leases.Len(), n)
		}
		if err := timer.Sleep(ctx, timer.Tick()); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Round(time.Millisecond), nil
}

func main() { demo.Main(run) }
