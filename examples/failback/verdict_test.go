package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	const ttl, allowance = time.Second, 10 * ms
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	// The provider renewed at 300 ms and stopped from 500 to 550 ms. So its lease may end from 1300 to 1560 ms.
	stopped := life{accepted: at(300 * ms), stopping: at(500 * ms), stopped: at(550 * ms)}
	alive := life{accepted: at(300 * ms)}
	for name, tt := range map[string]struct {
		lives    map[string]life
		expiries []expiry
		want     string // empty if the lease expires rightly
	}{
		"first moment":  {map[string]life{"a": stopped}, []expiry{{"a", at(1300 * ms)}}, ""},
		"last moment":   {map[string]life{"a": stopped}, []expiry{{"a", at(1560 * ms)}}, ""},
		"early":         {map[string]life{"a": stopped}, []expiry{{"a", at(1300*ms - 1)}}, "the lease of a expired 999.999999ms after it was renewed: early by 1ns"},
		"late":          {map[string]life{"a": stopped}, []expiry{{"a", at(1560*ms + 1)}}, "the lease of a expired 1.010000001s after the provider had stopped: late by 10.000001ms"},
		"alive":         {map[string]life{"a": alive}, []expiry{{"a", at(1300 * ms)}}, "the lease of a expired, but the provider was not stopped"},
		"nobody":        {nil, []expiry{{"a", at(1300 * ms)}}, "the lease of a expired, but the provider was not stopped"},
		"never expired": {map[string]life{"a": stopped}, nil, "provider a was stopped, but its lease has not expired"},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(ttl, allowance, tt.lives, tt.expiries, true)
			if tt.want == "" {
				require.Empty(t, v.wrongly)
				require.Equal(t, 1, v.rightly)
				require.Equal(t, tt.expiries[0].at.Sub(stopped.stopped), v.first)
				require.Equal(t, v.first, v.last)
				return
			}
			require.Equal(t, []string{tt.want}, v.wrongly)
			require.Zero(t, v.rightly)
		})
	}

	lives := map[string]life{"a": stopped, "b": stopped, "c": alive}
	v := judge(ttl, allowance, lives, []expiry{{"b", at(1350 * ms)}, {"a", at(1400 * ms)}}, true)
	require.Equal(t, verdict{rightly: 2, first: 800 * ms, last: 850 * ms}, v)

	twice := []expiry{{"a", at(1400 * ms)}, {"a", at(1400 * ms)}}
	require.Equal(t, []string{"the lease of a expired twice"}, judge(ttl, allowance, map[string]life{"a": stopped}, twice, true).wrongly)

	before := []expiry{{"a", at(400 * ms)}, {"a", at(1400 * ms)}}
	v = judge(ttl, allowance, map[string]life{"a": stopped}, before, true)
	require.Equal(t, []string{"the lease of a expired, but the provider was not stopped"}, v.wrongly, "while it was alive, and had to publish itself again")
	require.Equal(t, 1, v.rightly)

	require.Empty(t, judge(ttl, allowance, map[string]life{"a": stopped}, nil, false).wrongly, "interrupted before it could expire")
}
