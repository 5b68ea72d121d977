package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/stretchr/testify/require"
)

// A log records the leases that expire, in virtual time from its start.
type log struct {
	start    time.Time
	mu       sync.Mutex
	expiries []expiry
}

func (l *log) expired(name, _ string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiries = append(l.expiries, expiry{name, time.Now()})
}

// since returns when the leases of a provider expired, from the start of the log.
func (l *log) since(name string) (at []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.expiries {
		if e.name == name {
			at = append(at, e.at.Sub(l.start))
		}
	}
	return at
}

// newTestRegistry returns a registry with leases of 3 s and ticks of 10 ms.
func newTestRegistry(t *testing.T, l *log) *registry {
	t.Helper()
	r, err := newRegistry(10*ms, 3*time.Second, l.expired)
	require.NoError(t, err)
	t.Cleanup(func() { r.crash() })
	return r
}

func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, l := t.Context(), &log{start: time.Now()}
		r := newTestRegistry(t, l)
		for _, name := range []string{"silent", "renewed", "again", "removed"} {
			require.NoError(t, r.register(ctx, name, "addr"))
		}
		require.Equal(t, []string{"again", "removed", "renewed", "silent"}, r.names())
		pass(1003 * ms)
		require.NoError(t, r.register(ctx, "between ticks", "addr"))
		pass(1896 * ms) // 2899 ms
		require.NoError(t, r.renew(ctx, "renewed"))
		require.NoError(t, r.register(ctx, "again", "another"))
		require.NoError(t, r.remove(ctx, "removed"))
		require.ErrorIs(t, r.remove(ctx, "removed"), errUnknown)
		require.ErrorIs(t, r.renew(ctx, "removed"), errUnknown)
		require.ErrorIs(t, r.renew(ctx, "nobody"), errUnknown)
		pass(time.Minute)
		require.Equal(t, []time.Duration{3000 * ms}, l.since("silent"))
		require.Equal(t, []time.Duration{4010 * ms}, l.since("between ticks"), "due at 4003, not before")
		require.Equal(t, []time.Duration{5900 * ms}, l.since("renewed"), "due at 5899")
		require.Equal(t, []time.Duration{5900 * ms}, l.since("again"))
		require.Empty(t, l.since("removed"))
		require.Empty(t, r.names())
		require.ErrorIs(t, r.renew(ctx, "silent"), errUnknown, "an expired lease stays expired")
		require.Zero(t, r.timer.Pending())
	})
}

func TestCrashLosesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, l := t.Context(), &log{start: time.Now()}
		r := newTestRegistry(t, l)
		require.NoError(t, r.register(ctx, "a", "addr"))
		require.NoError(t, r.register(ctx, "b", "addr"))
		require.Equal(t, 2, r.crash())
		pass(time.Minute)
		require.Empty(t, l.expiries, "lost leases do not expire")
		require.ErrorIs(t, r.register(ctx, "a", "addr"), hashedwheel.ErrStopped)
		require.ErrorIs(t, r.renew(ctx, "b"), errUnknown)
	})
}

// A relay is a directory that can be out of reach or hang, and whose registry can be replaced.
type relay struct {
	mu   sync.Mutex
	to   *registry // nil: out of reach
	hang bool
}

func (d *relay) set(to *registry, hang bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to, d.hang = to, hang
}

func (d *relay) pass(ctx context.Context, request func(r *registry) error) error {
	d.mu.Lock()
	to, hang := d.to, d.hang
	d.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if to == nil {
		return errors.New("out of reach")
	}
	return request(to)
}

func (d *relay) register(ctx context.Context, name, addr string) error {
	return d.pass(ctx, func(r *registry) error { return r.register(ctx, name, addr) })
}
func (d *relay) renew(ctx context.Context, name string) error {
	return d.pass(ctx, func(r *registry) error { return r.renew(ctx, name) })
}
func (d *relay) remove(ctx context.Context, name string) error {
	return d.pass(ctx, func(r *registry) error { return r.remove(ctx, name) })
}

// newProviders returns providers that renew every second.
func newProviders(t *testing.T, d directory, names ...string) (ps []*provider, counts *providerCounts) {
	t.Helper()
	timer, err := hashedwheel.New(hashedwheel.WithTick(10 * ms))
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	counts = new(providerCounts)
	for _, name := range names {
		ps = append(ps, &provider{
			name: name, addr: "addr", timer: timer, directory: d, interval: time.Second, counts: counts,
		})
	}
	return ps, counts
}

func TestRenewedLeaseDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{start: time.Now()}
		r := newTestRegistry(t, l)
		ps, counts := newProviders(t, r, "a", "b")
		require.NoError(t, ps[0].start(500*ms))
		require.NoError(t, ps[1].start(700*ms))
		pass(time.Hour)
		require.Empty(t, l.expiries)
		require.Equal(t, []string{"a", "b"}, r.names())
		require.EqualValues(t, 2, counts.published.Load())
		require.EqualValues(t, 2*3599, counts.renewed.Load(), "once a second")
		require.Zero(t, counts.failed.Load())
	})
}

func TestStoppedProviderDisappears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{start: time.Now()}
		r := newTestRegistry(t, l)
		ps, _ := newProviders(t, r, "stays", "goes", "leaves", "never came")
		for _, p := range ps[:3] {
			require.NoError(t, p.start(500*ms))
		}
		pass(10*time.Second + 800*ms)
		require.NoError(t, ps[1].stop(t.Context()))
		require.NoError(t, ps[2].leave(t.Context()))
		require.NoError(t, ps[3].stop(t.Context()))
		require.ErrorIs(t, ps[3].leave(t.Context()), errUnknown)
		require.Equal(t, []string{"goes", "stays"}, r.names())
		pass(time.Minute)
		require.Equal(t, []time.Duration{13500 * ms}, l.since("goes"), "a TTL after its last renewal, at 10.5 s")
		require.Len(t, l.expiries, 1)
		require.Equal(t, []string{"stays"}, r.names())

		lives := map[string]life{"stays": ps[0].lived(), "goes": ps[1].lived()}
		v := judge(r.ttl, 0, lives, l.expiries, true)
		require.Equal(t, verdict{rightly: 1, first: 2700 * ms, last: 2700 * ms}, v)
	})
}

func TestStopWaitsForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &relay{hang: true}
		ps, counts := newProviders(t, d, "a")
		require.NoError(t, ps[0].start(100*ms))
		pass(200 * ms) // its request times out at 600 ms
		begun := time.Now()
		require.NoError(t, ps[0].stop(t.Context()))
		require.Equal(t, 400*ms, time.Since(begun))
		l := ps[0].lived()
		require.Equal(t, begun, l.stopping)
		require.Equal(t, begun.Add(400*ms), l.stopped)
		require.True(t, l.accepted.IsZero())
		require.EqualValues(t, 1, counts.failed.Load())
	})
}

// TestRestart crashes the registry at 5.2 s, and starts a new one at 6.605 s. All leases are back within an
// interval, the last one at 7.6 s.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{start: time.Now()}
		first := newTestRegistry(t, l)
		d := &relay{to: first}
		ps, counts := newProviders(t, d, "a", "b", "c")
		for i, p := range ps {
			require.NoError(t, p.start(time.Duration(i+1)*300*ms)) // 300, 600 and 900 ms
		}
		pass(5200 * ms)
		d.set(nil, false)
		require.Equal(t, 3, first.crash())
		pass(1400 * ms)
		second := newTestRegistry(t, l)
		pass(5 * ms)
		d.set(second, false)
		for _, tt := range []struct {
			until time.Duration
			want  []string
		}{
			{6895 * ms, nil}, {6905 * ms, []string{"c"}}, {7305 * ms, []string{"a", "c"}}, {7605 * ms, []string{"a", "b", "c"}},
		} {
			pass(tt.until - time.Since(l.start))
			require.Equal(t, tt.want, second.names(), "at %v", tt.until)
		}
		require.EqualValues(t, 3+3, counts.published.Load())
		require.EqualValues(t, 5, counts.failed.Load(), "a at 5.3 and 6.3 s, b at 5.6 and 6.6, c at 5.9")
		pass(time.Minute)
		require.Equal(t, []string{"a", "b", "c"}, second.names())
		require.Empty(t, l.expiries)
	})
}

// TestOneRenewalMayHang makes every other renewal hang. The lease is long enough for that.
func TestOneRenewalMayHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{start: time.Now()}
		r := newTestRegistry(t, l)
		d := &relay{to: r}
		ps, counts := newProviders(t, d, "a")
		require.NoError(t, ps[0].start(500*ms))
		pass(600 * ms)
		for range 100 { // a renewal hangs from 1.5 s to 2 s, and the next is at 3 s
			d.set(r, true)
			pass(1300 * ms)
			d.set(r, false)
			pass(1200 * ms)
		}
		require.Empty(t, l.expiries)
		require.EqualValues(t, 100, counts.failed.Load())
		require.EqualValues(t, 100, counts.renewed.Load())
		require.EqualValues(t, 1, counts.published.Load())
	})
}

// TestExpiredProviderComesBack cuts a provider off for longer than its lease.
func TestExpiredProviderComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{start: time.Now()}
		r := newTestRegistry(t, l)
		d := &relay{to: r}
		ps, counts := newProviders(t, d, "a")
		require.NoError(t, ps[0].start(500*ms))
		pass(1600 * ms)
		d.set(nil, false)
		pass(3500 * ms)
		require.Equal(t, []time.Duration{4500 * ms}, l.since("a"))
		d.set(r, false)
		pass(500 * ms) // the provider has tried at 5.5 s
		require.Equal(t, []string{"a"}, r.names())
		require.EqualValues(t, 2, counts.published.Load())
		v := judge(r.ttl, 0, map[string]life{"a": ps[0].lived()}, l.expiries, true)
		require.Equal(t, []string{"the lease of a expired, but the provider was not stopped"}, v.wrongly)
	})
}
