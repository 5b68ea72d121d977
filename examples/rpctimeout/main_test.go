package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

const limit = 100 * time.Millisecond

// inBubble runs a test of a client. The server takes as many milliseconds for a value as it says. Hang up ends the
// connection.
func inBubble(t *testing.T, test func(t *testing.T, timer *hashedwheel.Timer, cl *client, hangUp func())) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := hashedwheel.New(hashedwheel.WithTick(5 * time.Millisecond))
		require.NoError(t, err)
		defer timer.Stop()
		near, far := net.Pipe()
		go serve(far, func(value uint64) time.Duration { return time.Duration(value) * time.Millisecond })
		defer time.Sleep(time.Second) // until the server has carried out each request
		defer near.Close()
		test(t, timer, newClient(timer, near, limit), func() { far.Close() })
	})
}

func TestReplyOrTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, timer *hashedwheel.Timer, cl *client, _ func()) {
		for _, tt := range []struct {
			number uint64
			want   error
			took   time.Duration
		}{
			{0, nil, 0},
			{150, errTimeout, limit},
			{95, nil, 95 * time.Millisecond}, // the reply to 150 comes meanwhile
			{95, nil, 95 * time.Millisecond},
			{105, errTimeout, limit},
			{5, nil, 5 * time.Millisecond}, // as does the reply to 105
		} {
			start := time.Now()
			reply, err := cl.do(tt.number)
			require.Equal(t, tt.want, err, tt.number)
			require.Equal(t, tt.took, time.Since(start), tt.number)
			if err == nil {
				require.Equal(t, 2*tt.number, reply)
			}
		}
		stats := timer.Stats()
		assert.EqualValues(t, 4, stats.Canceled)
		assert.EqualValues(t, 2, stats.Expired)
	})
}

// All replies are due at the same moment as the timeouts.
func TestReplyMeetsTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, timer *hashedwheel.Timer, cl *client, _ func()) {
		const n = 500
		results := make(chan error)
		for range n {
			go func() {
				reply, err := cl.do(100)
				if err == nil {
					assert.EqualValues(t, 200, reply)
				}
				results <- err
			}()
		}
		answered := uint64(0)
		for range n {
			if err := <-results; err == nil {
				answered++
			} else {
				assert.Equal(t, errTimeout, err)
			}
		}
		t.Logf("%d of %d answered", answered, n)
		synctest.Wait()
		stats := timer.Stats()
		assert.Equal(t, answered, stats.Canceled)
		assert.Equal(t, n-answered, stats.Expired)
	})
}

// The reader has found a call, whose timeout then expires before the reader goes on. It changes nothing any more, not even the
// next call.
func TestReaderIsLate(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *hashedwheel.Timer, cl *client, _ func()) {
		results := make(chan error)
		go func() {
			_, err := cl.do(500)
			results <- err
		}()
		synctest.Wait()
		c := cl.take(cl.last)
		require.Equal(t, errTimeout, <-results)
		time.AfterFunc(limit/4, func() { c.end(7, nil) })
		reply, err := cl.do(50)
		require.NoError(t, err)
		require.EqualValues(t, 100, reply)
		require.Empty(t, c.ended)
	})
}

// After Stop no timeout expires, so a reply is good whenever it comes.
func TestReplyAfterStop(t *testing.T) {
	inBubble(t, func(t *testing.T, timer *hashedwheel.Timer, cl *client, _ func()) {
		time.AfterFunc(limit/2, func() { timer.Stop() })
		reply, err := cl.do(500)
		require.NoError(t, err)
		assert.EqualValues(t, 1000, reply)

		_, err = cl.do(1)
		assert.ErrorIs(t, err, hashedwheel.ErrStopped)
	})
}

func TestLostConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, timer *hashedwheel.Timer, cl *client, hangUp func()) {
		time.AfterFunc(limit/2, hangUp)
		start := time.Now()
		_, err := cl.do(75)
		assert.ErrorIs(t, err, io.EOF)
		assert.Equal(t, limit/2, time.Since(start), "the call does not wait for its timeout")

		answered, timedOut, err := makeCalls(t.Context(), cl, 10)
		assert.ErrorIs(t, err, io.EOF)
		assert.Zero(t, answered+timedOut)
		assert.Zero(t, timer.Pending())
	})
}

func TestRun(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-n=3000", "-timeout=40ms"}, &out))
	ends := regexp.MustCompile(`^3000 requests begin, each with a timeout of 40ms\n3000 requests in .*: (\d+) answered, (\d+) timed out\n`).FindStringSubmatch(out.String())
	require.Len(t, ends, 3, out.String())
	answered, err := strconv.Atoi(ends[1])
	require.NoError(t, err)
	timedOut, err := strconv.Atoi(ends[2])
	require.NoError(t, err)
	assert.Equal(t, 3000, answered+timedOut)
	assert.Positive(t, timedOut, "one reply in 50 takes up to twice the timeout")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	require.NoError(t, run(ctx, nil, &out))
	assert.Regexp(t, `^200000 requests begin, each with a timeout of 200ms\n0 requests in .*: 0 answered, 0 timed out\n`, out.String())
}
