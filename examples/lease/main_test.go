package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

const (
	tick = 10 * time.Millisecond
	ttl  = 3 * time.Second
)

// inBubble runs a test of a registry that records when leases have expired, counted from the start of the test.
func inBubble(t *testing.T,
	test func(t *testing.T, timer *hashedwheel.Timer, r *registry, expired map[string]time.Duration),
) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
		require.NoError(t, err)
		defer timer.Stop()
		start := time.Now()
		expired := make(map[string]time.Duration)
		test(t, timer, newRegistry(timer, ttl, func(name, _ string) { expired[name] = time.Since(start) }), expired)
	})
}

func (r *registry) addr(name string) string {
	addr, _ := r.leases.Get(name)
	return addr
}

func TestLease(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *hashedwheel.Timer, r *registry, expired map[string]time.Duration) {
		assert.False(t, r.renew("a"), "it is not registered")
		require.NoError(t, r.register("a", "host:1"))
		require.NoError(t, r.register("b", "host:2"))
		time.Sleep(2 * time.Second)
		assert.True(t, r.renew("a"))
		time.Sleep(ttl - time.Nanosecond)
		assert.Equal(t, "host:1", r.addr("a"))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, map[string]time.Duration{"a": 2*time.Second + ttl, "b": ttl}, expired)
		assert.False(t, r.renew("a"), "it has expired")
		assert.Zero(t, r.leases.Len())
	})
}

// A service keeps its lease until its host dies.
func TestHostDies(t *testing.T) {
	inBubble(t, func(t *testing.T, timer *hashedwheel.Timer, r *registry, expired map[string]time.Duration) {
		dying, living := hashedwheel.NewGroup(timer), hashedwheel.NewGroup(timer)
		require.NoError(t, (&service{"a", "dying:1", r}).start(dying))
		require.NoError(t, (&service{"b", "dying:2", r}).start(dying))
		require.NoError(t, (&service{"c", "living:1", r}).start(living))
		time.Sleep(time.Hour)
		assert.Empty(t, expired)
		assert.Equal(t, 3, r.leases.Len())

		dying.Close()
		time.Sleep(ttl)
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			assert.Greater(t, expired[name], time.Hour+ttl-ttl/2-2*tick, "the last renewal was less than half a lifetime ago")
			assert.LessOrEqual(t, expired[name], time.Hour+ttl)
		}
		time.Sleep(time.Hour)
		assert.Len(t, expired, 2)
		assert.Equal(t, "living:1", r.addr("c"))
		assert.Equal(t, 1, r.leases.Len())
	})
}

// The README says how often a lease is renewed.
func TestRenewals(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	says := regexp.MustCompile(`A lease lasts for 1\.5 s and is renewed each (\d+) to (\d+) ms\.`).FindSubmatch(readme)
	require.Len(t, says, 3)
	synctest.Test(t, func(t *testing.T) {
		const ttl, tick = 1500 * time.Millisecond, 30 * time.Millisecond
		timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
		require.NoError(t, err)
		defer timer.Stop()
		r := newRegistry(timer, ttl, nil)
		require.NoError(t, (&service{"a", "host:1", r}).start(hashedwheel.NewGroup(timer)))
		deadline, ok := r.leases.Deadline("a")
		require.True(t, ok)
		var gaps []time.Duration
		for len(gaps) < 10_000 {
			time.Sleep(tick)
			synctest.Wait()
			if next, _ := r.leases.Deadline("a"); !next.Equal(deadline) {
				gaps, deadline = append(gaps, next.Sub(deadline)), next
			}
		}
		for i, extreme := range []time.Duration{slices.Min(gaps), slices.Max(gaps)} {
			figure, err := time.ParseDuration(string(says[i+1]) + "ms")
			require.NoError(t, err)
			require.InDelta(t, figure, extreme, float64(2*tick))
		}
	})
}

// A service whose lease is lost registers at its next renewal.
func TestRegistryLosesItsMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, timer *hashedwheel.Timer, r *registry, expired map[string]time.Duration) {
		host := hashedwheel.NewGroup(timer)
		require.NoError(t, (&service{"a", "host:1", r}).start(host))
		time.Sleep(time.Minute)
		r.leases.Clear()
		assert.Empty(t, r.addr("a"))
		time.Sleep(ttl/2 + 2*tick)
		assert.Equal(t, "host:1", r.addr("a"))
		time.Sleep(time.Hour)
		assert.Equal(t, "host:1", r.addr("a"))
		assert.Empty(t, expired)
	})
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), []string{"-hosts=30", "-ttl=3s"}, &out))
		took := regexp.MustCompile(`^300 services are registered, and renew their leases
30 services of 3 hosts that died have expired within (.*)
the registry has lost its memory: 270 services have registered again within (.*)
no other service has expired
$`).FindStringSubmatch(out.String())
		require.Len(t, took, 3, out.String())
		for i, most := range []time.Duration{3 * time.Second, 1500 * time.Millisecond} {
			d, err := time.ParseDuration(took[i+1])
			require.NoError(t, err)
			assert.LessOrEqual(t, d, most+3*60*time.Millisecond, "three ticks")
			assert.Greater(t, d, most/2)
		}
	})
}
