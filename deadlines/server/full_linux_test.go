package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// A smallDisk is a file system of 24 MiB in memory.
type smallDisk string

func newSmallDisk(t *testing.T) smallDisk {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m")
	if errors.Is(err, syscall.EPERM) {
		t.Skip("NOT TESTED: a full disk. Only root can mount the small disk that this test fills.")
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		// Detached, because a goroutine of nats-server may close its last file a moment after the server has stopped.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return smallDisk(dir)
}

func (d smallDisk) dir() string { return filepath.Join(string(d), "server") }

func (d smallDisk) fill(t *testing.T) {
	t.Helper()
	f, err := os.Create(filepath.Join(string(d), "filler"))
	require.NoError(t, err)
	defer f.Close()
	for n := 1 << 20; n > 0; {
		if _, err = f.Write(make([]byte, n)); err != nil {
			n /= 2
		}
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
}

// free makes the filler smaller by n bytes.
func (d smallDisk) free(t *testing.T, n int64) {
	t.Helper()
	filler := filepath.Join(string(d), "filler")
	info, err := os.Stat(filler)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filler, info.Size()-n))
}

// publishUntil publishes until done returns true for the result, and adds the acknowledged messages.
func publishUntil(t *testing.T, js jetstream.JetStream, acked map[uint64]bool, done func(err error) bool) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		seq, err := publish(ctx, js, "a")
		if err == nil {
			acked[seq] = true
		}
		if !done(err) {
			return errors.New("not yet")
		}
		return nil
	})
}

func testFullDisk(t *testing.T, js jetstream.JetStream, disks []smallDisk, l []*logs) {
	t.Helper()
	acked := make(map[uint64]bool)
	published := func(err error) bool { return err == nil }
	for range 50 {
		publishUntil(t, js, acked, published)
	}
	for _, d := range disks {
		d.fill(t)
	}
	const off, on = `level=ERROR msg="JetStream is off, because `, `level=INFO msg="JetStream is on again`
	count := func(text string) (n int) {
		for _, l := range l {
			n += strings.Count(l.String(), text)
		}
		return n
	}
	publishUntil(t, js, acked, func(err error) bool { return err != nil && count(off) > 0 })
	require.Zero(t, count(on))
	for _, d := range disks {
		d.free(t, 6<<20)
	}
	publishUntil(t, js, acked, func(err error) bool { return err == nil && count(on) == count(off) })
	requireStored(t, js, acked)

	// The limit is that of the first start, which is more than the space at the restart.
	for _, d := range disks {
		d.free(t, 12<<20)
	}
	for range 8 {
		eventually(t, func(ctx context.Context) error {
			_, err := js.Publish(ctx, "a", make([]byte, 900_000))
			return err
		})
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	d, l := newSmallDisk(t), newLogs(t)
	s := start(t, Config{Dir: d.dir(), Logger: l.logger()})
	js := connect(t, s.URL())
	createStream(t, js, jetstream.StreamConfig{Name: "a"})
	testFullDisk(t, js, []smallDisk{d}, []*logs{l})
}

func TestFullDisksOfCluster(t *testing.T) {
	t.Parallel()
	disks := []smallDisk{newSmallDisk(t), newSmallDisk(t), newSmallDisk(t)}
	cfgs := clusterConfigs(t, []string{disks[0].dir(), disks[1].dir(), disks[2].dir()})
	var l []*logs
	var urls []string
	for _, cfg := range cfgs {
		l = append(l, newLogs(t))
		cfg.Logger = l[len(l)-1].logger()
		urls = append(urls, start(t, cfg).URL())
	}
	js := connect(t, strings.Join(urls, ","))
	createStream(t, js, jetstream.StreamConfig{Name: "a", Replicas: 3})
	testFullDisk(t, js, disks, l)
	eventually(t, func(ctx context.Context) error { return allCurrent(ctx, js, "a") })
}

// A server that starts on a full disk computes a limit of nothing and keeps it when space is free.
func TestStartOnFullDisk(t *testing.T) {
	t.Parallel()
	d := newSmallDisk(t)
	d.fill(t)
	_, err := Start(Config{Dir: d.dir(), Listen: "127.0.0.1:0", Logger: newLogs(t).logger()})
	require.ErrorIs(t, err, syscall.ENOSPC)
	d.free(t, 20<<20)
	start(t, Config{Dir: d.dir()})
}
