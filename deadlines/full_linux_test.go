package deadlines_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/stretchr/testify/require"
)

// The disks of all servers, or of two of three, are really full. From the first line about requests that fail on, the log
// names that as a reason, and when it has lasted for longer than an election, as the first one.
func TestFullDisks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long beside other tests; it runs every night")
	}
	for _, full := range []int{2, 3} {
		t.Run(fmt.Sprint(full, " of 3"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for i := range 3 {
				name := filepath.Join(dir, fmt.Sprint("server", i))
				require.NoError(t, os.Mkdir(name, 0o700))
				err := syscall.Mount("tmpfs", name, "tmpfs", 0, "size=24m")
				if errors.Is(err, syscall.EPERM) {
					t.Skip("NOT TESTED: full disks. Only root can mount the small disks that this test fills.")
				}
				require.NoError(t, err)
				t.Cleanup(func() { syscall.Unmount(name, syscall.MNT_DETACH) })
			}
			c := startCluster(t, dir)
			var log lines
			nc, err := deadlines.Connect(c.urls(0))
			require.NoError(t, err)
			t.Cleanup(nc.Close)
			s, err := deadlines.Open(t.Context(), nc, deadlines.Config{
				Lease: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			require.NoError(t, err)
			t.Cleanup(s.Close)
			c.awaitHealthy(3)
			b := &bench{t: t}
			b.work(s, func(context.Context, deadlines.Deadline) error { return nil })
			for i := range full {
				f, err := os.Create(filepath.Join(dir, fmt.Sprint("server", i), "filler"))
				require.NoError(t, err)
				for n := 1 << 20; n > 0; {
					if _, err = f.Write(make([]byte, n)); err != nil {
						n /= 2
					}
				}
				f.Close()
				require.ErrorIs(t, err, syscall.ENOSPC)
			}
			payload := make([]byte, 10_000)
			for end := time.Now().Add(75 * time.Second); time.Now().Before(end); {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				s.Set(ctx, fmt.Sprint("key/", time.Now().UnixNano()), time.Now().Add(time.Hour), payload)
				cancel()
				time.Sleep(10 * time.Millisecond)
			}
			var failed []string
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "requests have failed") {
					failed = append(failed, line)
				}
			}
			t.Logf("%s", strings.Join(failed, ""))
			require.NotEmpty(t, failed)
			for _, line := range failed {
				require.Contains(t, line, "disk")
			}
		})
	}
}
