package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), []string{"-for", "1s"}, &out))
		require.Equal(t, ""+
			"key     events  calls of throttle  of debounce\n"+
			"steady  143     5                  2\n"+
			"bursts  40      4                  2\n"+
			"rare    2       2                  2\n", out.String())
	})
}

// Ctrl-C ends the events. The delayed calls are made, and the promises are kept.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 303*ms)
		defer cancel()
		require.NoError(t, run(ctx, []string{"-for", "1h"}, new(bytes.Buffer)))
		require.Equal(t, 503*ms, time.Since(began), "the second interval of the throttle ends after 500 ms")
	})
}

// The promises are kept with random bursts, in virtual time and in real time.
func TestRandomBursts(t *testing.T) {
	random := func(t *testing.T, length time.Duration) {
		streams := make([]*stream, 20)
		for i := range streams {
			streams[i] = &stream{burst: 1 + rand.IntN(40), pause: rand.N(min(length, time.Second))}
		}
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		require.NoError(t, serve(ctx, streams))
		for _, s := range streams {
			require.NoError(t, s.check())
			if len(s.sent) > 0 { // in real time, the machine may pause for the whole length
				require.NotEmpty(t, s.throttle)
				require.NotEmpty(t, s.debounce)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) { random(t, 20*time.Second) })
	length := time.Second
	if testing.Short() {
		length /= 10
	}
	random(t, length)
}

func TestCheck(t *testing.T) {
	began := time.Now()
	at := func(n int, d time.Duration) call { return call{n, began.Add(d)} }
	s := &stream{key: "k"}
	for i := range 10 { // events at 0, 60, 120, and so on to 540 ms
		s.sent = append(s.sent, at(i, time.Duration(i)*60*ms).at)
	}
	throttle := []call{at(0, 0), at(4, interval), at(8, 2*interval), at(9, 3*interval)}
	debounce := []call{at(8, maxWait), at(9, 640*ms)}
	for _, c := range []struct {
		throttle, debounce []call
		want               string
	}{
		{throttle, debounce, ""},
		{append(throttle[:3:3], at(9, 3*interval-1)), debounce,
			"throttle of k: the call for event 9 came too soon, or again"},
		{append(throttle, at(9, time.Hour)), debounce, "throttle of k: the call for event 9 came too soon, or again"},
		{throttle[:3], debounce, "throttle of k: the last call was for event 8 of 9"},
		{throttle, []call{at(8, maxWait-1), at(9, time.Hour)}, "debounce of k: the call for event 8 came too soon, or again"},
		{throttle, []call{at(8, maxWait), at(9, 640*ms-1)}, "debounce of k: the call for event 9 came too soon, or again"},
		{throttle, nil, "debounce of k: the last call was for event -1 of 9"},
	} {
		s.throttle, s.debounce = c.throttle, c.debounce
		if err := s.check(); c.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.want)
		}
	}
}
