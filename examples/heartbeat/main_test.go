package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/idle"
)

// Pipes is a listener for connections in a bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return nil }

// One client sends heartbeats all the time. Another one stops after ten seconds, and a third one hangs up then.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := hashedwheel.New(hashedwheel.WithTick(50 * time.Millisecond))
		require.NoError(t, err)
		defer timer.Stop()
		limit, err := idle.New(timer, 2*time.Second)
		require.NoError(t, err)
		var s server
		ln := make(pipes)
		defer ln.Close()
		go s.serve(ln, limit)

		start := time.Now()
		clients := make([]*client, 3)
		for i := range clients {
			near, far := net.Pipe()
			ln <- far
			defer near.Close()
			clients[i] = &client{number: uint32(i), conn: near}
			clients[i].heartbeat, err = timer.ScheduleAtFixedRate(clients[i], 0, 500*time.Millisecond)
			require.NoError(t, err)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		clients[1].heartbeat.Cancel()
		clients[2].heartbeat.Cancel()
		clients[2].conn.Close()
		time.Sleep(time.Minute)

		closed := make(map[uint32]time.Duration)
		for number, at := range s.closed.Range {
			closed[number.(uint32)] = at.(time.Time).Sub(start)
		}
		last := clients[1].last.Sub(start)
		assert.Equal(t, 10*time.Second, last.Round(500*time.Millisecond))
		assert.Equal(t, map[uint32]time.Duration{1: last + 2*time.Second}, closed)
		assert.EqualValues(t, 1, limit.NumClosed())
	})
}

func TestReport(t *testing.T) {
	const limit = time.Second
	last := time.Now()
	for name, tt := range map[string]struct {
		closed []uint32      // of two clients, of which client 0 fell silent
		late   time.Duration // how late it was closed
		err    error
		want   string
	}{
		"right":             {closed: []uint32{0}, late: 7 * time.Millisecond},
		"in time":           {closed: []uint32{0}},
		"early":             {closed: []uint32{0}, late: -1, want: "client 0: closed 999.999999ms after its last heartbeat"},
		"missed":            {want: "client 0: silent true, closed false"},
		"wrong":             {closed: []uint32{0, 1}, want: "client 1: silent false, closed true"},
		"broken connection": {closed: []uint32{0}, err: errors.New("broken"), want: "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			var s server
			for _, number := range tt.closed {
				s.closed.Store(number, last.Add(limit+tt.late))
			}
			var out bytes.Buffer
			err := s.report(&out, []*client{{number: 0, last: last}, {number: 1, err: tt.err}}, 1, limit)
			if tt.want != "" {
				require.EqualError(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "2 clients, of which 1 fell silent: the limit closed these and no others\n"+
				fmt.Sprintf("1s after their last heartbeat, and %v to %[1]v late\n", tt.late), out.String())
		})
	}
}

func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes six seconds of real time: runs without -short")
	}
	var out bytes.Buffer // the limit is long, because a stall of three quarters of it would close other connections
	require.NoError(t, run(t.Context(), []string{"-n=30", "-silent=10", "-limit=2s"}, &out))
	assert.Regexp(t, `^30 clients, of which 10 fell silent: the limit closed these and no others
2s after their last heartbeat, and [\d.]+m?s to [\d.]+m?s late\n$`, out.String(), "never early")
}
