//go:build unix

package deadlines_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// A deadline ends each process whose worker calls its handler. The log of the next one names it. After some deaths it
// waits, and after ten it is set aside, and other deadlines are handled. It becomes due again by Move.
func TestDeadlyDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	s, _ := b.open(b.srv.ClientURL())
	dir := t.TempDir()
	require.NoError(t, s.Set(t.Context(), "deadly", time.Now(), []byte("payload")))
	deaths := 0
	work := func(until func() bool) {
		spec := childSpec{Worker: &workerSpec{
			URLs: b.srv.ClientURL(), Calls: filepath.Join(dir, "calls"), Lease: time.Second, Dies: "deadly",
		}}
		for !until() {
			p := startProcess(t, filepath.Join(dir, "log"), spec)
			eventually(t, "it dies, or is not to die any more", func() error {
				select {
				case <-p.ended:
					deaths++
				default:
					if !until() {
						return errors.New("not yet")
					}
				}
				return nil
			})
		}
	}
	setAside := func() bool { return s.Stats().Aside == 1 }
	work(setAside)
	require.Equal(t, 10, deaths)
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	for i := 1; i <= 10; i++ {
		require.Contains(t, string(log), fmt.Sprintf("has lost its lease\" store=deadlines key=deadly attempt=%d deaths=%d worker=", i, i))
	}
	require.NoError(t, s.Set(t.Context(), "good", time.Now(), nil)) // the last process is alive
	eventually(t, "the other one is handled", func() error {
		if d, err := s.Get(t.Context(), "good"); err != nil || d.Status != deadlines.Handled {
			return fmt.Errorf("%+v, %w", d, err)
		}
		return nil
	})
	require.Equal(t, 10, deaths)
	d, err := s.Get(t.Context(), "deadly")
	require.NoError(t, err)
	require.Equal(t, deadlines.Pending, d.Status)
	const because = "10 workers in a row have died in the handler, or have lost their lease"
	require.Equal(t, because, d.Error)
	nc, err := nats.Connect(b.srv.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	r, err := deadlines.Check(t.Context(), nc, "deadlines")
	require.NoError(t, err)
	require.Equal(t, []int{1, 1, 1}, []int{r.Aside, r.Faults, r.Pending}, r)
	require.Contains(t, r.FirstFaults[0], `is set aside: "deadly": `+because)

	moved, err := s.Move(t.Context(), "deadly", time.Now()) // by an operator, to try once more
	require.NoError(t, err)
	require.True(t, moved)
	work(func() bool { return deaths == 11 })
	work(func() bool { return deaths == 12 })
	d, err = s.Get(t.Context(), "deadly")
	require.NoError(t, err)
	require.Equal(t, "payload", string(d.Payload))
	eventually(t, "it is not set aside", func() error {
		if setAside() {
			return errors.New("it is set aside")
		}
		return nil
	})
}
