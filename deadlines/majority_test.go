//go:build unix

package deadlines_test

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/stretchr/testify/require"
)

// Two of three servers are killed, or suspended. The third one is no reason to say that there is no room: calls wait, and
// the log says that too few servers are up. So it also is while the others come back.
func TestMajorityLost(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long beside other tests; it runs every night")
	}
	for name, suspend := range map[string]bool{"killed": false, "suspended": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := startCluster(t, dir)
			var log lines
			nc, err := deadlines.Connect(c.urls(0))
			require.NoError(t, err)
			t.Cleanup(nc.Close)
			s, err := deadlines.Open(t.Context(), nc, deadlines.Config{
				Lease: 2 * time.Second, Retain: -1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			require.NoError(t, err)
			t.Cleanup(s.Close)
			b := &bench{t: t}
			b.work(s, func(context.Context, deadlines.Deadline) error { return nil })
			c.awaitHealthy(3)
			leader := c.leader()
			require.GreaterOrEqual(t, leader, 0)
			survivor := leader // it has heard from the others
			if !suspend {
				survivor = (leader + 1) % 3 // it has only heard from the leader
			}
			for i, p := range c.servers {
				switch {
				case i == survivor:
				case suspend:
					require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
				default:
					p.kill()
				}
			}
			const limit = 1500 * time.Millisecond
			set := func() error {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				began := time.Now()
				err := s.Set(ctx, "key", time.Now(), nil)
				require.NotErrorIs(t, err, deadlines.ErrNoRoom)
				require.False(t, s.Stats().Full)
				if err != nil {
					require.GreaterOrEqual(t, time.Since(began), limit-100*time.Millisecond, err)
				}
				return err
			}
			for end := time.Now().Add(40 * time.Second); time.Now().Before(end); {
				require.Error(t, set())
			}
			require.Contains(t, log.String(), `because="no leader: too few servers are up: 1 of 3`)
			for i := range c.servers {
				switch {
				case i == survivor:
				case suspend:
					require.NoError(t, c.servers[i].cmd.Process.Signal(syscall.SIGCONT))
				default:
					c.start(i)
				}
			}
			eventually(t, "a Set succeeds", set)
			eventually(t, "it is handled", func() error {
				d, err := s.Get(t.Context(), "key")
				if err == nil && d.Status != deadlines.Handled {
					err = errors.New(string(d.Status))
				}
				return err
			})
			require.NotContains(t, log.String(), "no room:")
		})
	}
}
