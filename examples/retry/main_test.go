package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
)

const (
	tick     = 10 * time.Millisecond
	sendTime = 5 * time.Millisecond

	alwaysPanics = 2000 // the failures of a delivery whose tries panic
)

var errDown = errors.New("the service is down")

// deliver makes a delivery whose first tries fail, and returns it with the times of its tries, an hour later.
func deliver(t *testing.T, timer *hashedwheel.Timer, failures int) (d *delivery, at []time.Time) {
	d = &delivery{clock: clock.New(timer), ended: make(chan *delivery, 2), send: func(context.Context) error {
		at = append(at, time.Now())
		time.Sleep(sendTime)
		if len(at) <= failures {
			if failures == alwaysPanics {
				panic(errDown)
			}
			return errDown
		}
		return nil
	}}
	to, err := timer.Schedule(d, d)
	require.NoError(t, err)
	time.Sleep(time.Hour)
	synctest.Wait()
	require.True(t, to.IsExpired())
	return d, at
}

func TestTries(t *testing.T) {
	for _, tt := range []struct {
		failures, tries int
		err             error
	}{
		{0, 1, nil}, {1, 2, nil}, {maxTries - 1, maxTries, nil}, {maxTries, maxTries, errDown}, {1000, maxTries, errDown},
		{alwaysPanics, maxTries, errPanicked},
	} {
		synctest.Test(t, func(t *testing.T) {
			timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
			require.NoError(t, err)
			defer timer.Stop()
			d, at := deliver(t, timer, tt.failures)
			assert.Len(t, at, tt.tries)
			assert.Equal(t, tt.tries, d.tries)
			assert.Equal(t, tt.err, d.err)
			assert.Len(t, d.ended, 1, "the delivery ends once")
			for i := 1; i < len(at); i++ {
				longest := min(firstWait<<(i-1), maxWait)
				assert.LessOrEqual(t, at[i].Sub(at[i-1]), sendTime+longest+tick, "the wait after try %d", i)
			}
		})
	}
}

// As many tries hang as may run at once. All time out, although no other task can start meanwhile.
func TestTriesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tries = 6
		timer, err := hashedwheel.New(hashedwheel.WithTick(tick), hashedwheel.WithMaxConcurrency(tries))
		require.NoError(t, err)
		defer timer.Stop()
		ended := make(chan *delivery, tries)
		s := service{hanging: 1}
		start := time.Now()
		for range tries {
			d := &delivery{send: s.send, clock: clock.New(timer), ended: ended, tries: maxTries - 1}
			_, err := timer.NewTimeout(d, 0)
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, ended, tries, "of %d tries", tries)
		for range tries {
			require.ErrorIs(t, (<-ended).err, errTryTime)
		}
		require.Less(t, tryTime, time.Since(start))
	})
}

func TestBackoff(t *testing.T) {
	for tries := 1; tries <= 100; tries++ {
		longest := maxWait
		if tries <= 4 {
			longest = []time.Duration{100, 200, 400, 800}[tries-1] * time.Millisecond
		}
		quarters := make([]int, 4)
		for range 1000 {
			wait := backoff(tries)
			if wait < 0 || wait >= longest {
				t.Fatalf("%v after try %d", wait, tries)
			}
			quarters[4*wait/longest]++
		}
		for _, n := range quarters {
			require.InDelta(t, 250, n, 120, "after try %d: %d", tries, quarters) // nine standard deviations
		}
	}
}

// Others take every slot that is free, but the delivery keeps its own until it ends.
func TestRetryKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := hashedwheel.New(hashedwheel.WithTick(tick), hashedwheel.WithMaxPending(1))
		require.NoError(t, err)
		defer timer.Stop()
		taken := make(chan time.Time, 1)
		go func() {
			for synctest.Wait(); ; time.Sleep(time.Millisecond) {
				if _, err := timer.AfterFunc(2*time.Hour, func() {}); err == nil {
					taken <- time.Now()
					return
				}
			}
		}()
		_, at := deliver(t, timer, maxTries-1)
		require.Len(t, at, maxTries)
		assert.GreaterOrEqual(t, <-taken, at[maxTries-1].Add(sendTime))
	})
}

func TestRun(t *testing.T) {
	for args, want := range map[string]string{
		"-n=100 -failing=0 -hanging=0": "delivered by try 1: 100\n",
		"-n=100 -hanging=1":            "delivered by try 8: 0\ngiven up after try 8: 100\n",
		"-n=100 -failing=1":            "delivered by try 8: 0\ngiven up after try 8: 100\n",
		"-n=100":                       "",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), strings.Fields(args), &out))
			assert.Contains(t, out.String(), want)
			assert.Equal(t, maxTries+1, strings.Count(out.String(), "\n"))
		})
	}
}

func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		assert.ErrorIs(t, run(ctx, []string{"-failing=1", "-hanging=0"}, new(bytes.Buffer)), context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(start), 55*time.Millisecond, "only the tries in progress end")
	})
}
