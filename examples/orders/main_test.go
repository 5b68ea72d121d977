package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"github.com/hashedwheel/hashedwheel/keyed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

const (
	tick  = 10 * time.Millisecond
	batch = 10 * time.Millisecond // how long bbolt collects changes
)

// beProgram names a file. If it is set, the test binary takes orders, and prints a line for each change.
const beProgram = "ORDERS_TEST_FILE"

func TestMain(m *testing.M) {
	if file := os.Getenv(beProgram); file != "" {
		demo.Main(func(ctx context.Context, _ []string, out io.Writer) error {
			st, _, err := openStore(file, false)
			if err != nil {
				return err
			}
			return serve(ctx, st, 50, func(id uint64, is state) { fmt.Fprintln(out, id, is) })
		})
	}
	os.Exit(m.Run())
}

func startProgram(t *testing.T, file string) (*exec.Cmd, *bufio.Reader) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), beProgram+"="+file)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, bufio.NewReader(out)
}

// The program is killed again and again while it works. All changes that it has told of are in the file.
func TestKill(t *testing.T) {
	file := newFile(t)
	told := map[state]map[uint64]bool{open: {}, paid: {}, canceled: {}}
	for n := 0; n < 5 || len(told[paid]) == 0 || len(told[canceled]) == 0; n++ {
		cmd, out := startProgram(t, file)
		kill := 50 + rand.IntN(250)
		for n := 0; ; n++ {
			if n == kill {
				require.NoError(t, cmd.Process.Kill())
			}
			line, err := out.ReadString('\n')
			if err != nil {
				break // the kill may have cut the line
			}
			var id uint64
			var is state
			_, err = fmt.Sscan(line, &id, &is)
			require.NoError(t, err, line)
			require.False(t, told[is][id], "order %d is %s twice", id, is)
			told[is][id] = true
		}
		cmd.Wait()
		require.Equal(t, -1, cmd.ProcessState.ExitCode(), "the kill has ended it, and no failure")

		// Opening the file checks that each order has ended once at most, and not too soon.
		st, _, err := openStore(file, true)
		require.NoError(t, err)
		orders := st.orders(t)
		for is, ids := range told {
			for id := range ids {
				require.Contains(t, orders, id)
				require.True(t, is == open || is == orders[id].state(), "order %d is not %s", id, is)
			}
		}
		require.NoError(t, st.db.Close())
	}
	require.NotEmpty(t, told[open])

	// After another start, without customers, all orders have ended.
	st, had, err := openStore(file, false)
	require.NoError(t, err)
	require.Positive(t, had[open], "the last kill has left open orders")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.NoError(t, serve(ctx, st, 0, func(uint64, state) {}))
	has, err := st.check()
	require.NoError(t, err)
	require.Zero(t, has[open])
	require.NoError(t, st.db.Close())
}

func TestSecondProcessIsRefused(t *testing.T) {
	file := newFile(t)
	_, out := startProgram(t, file)
	_, err := out.ReadString('\n')
	require.NoError(t, err)
	go io.Copy(io.Discard, out)
	for _, args := range [][]string{{"-db", file}, {"-db", file, "-check"}} {
		err = run(t.Context(), args, io.Discard)
		assert.EqualError(t, err, file+": another process has the file open")
	}
}

// The second run finds the orders that the first run has left.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		var first, second bytes.Buffer
		require.NoError(t, run(t.Context(), []string{"-db", file, "-for", "10s"}, &first))
		require.NoError(t, run(t.Context(), []string{"-db", file, "-check"}, &second))
		_, left, _ := strings.Cut(first.String(), "\nleft ")
		_, found, _ := strings.Cut(second.String(), "\nfound")
		require.NotEmpty(t, left)
		require.Equal(t, left, found)
	})
}

// newShop starts a shop without customers at a tick boundary.
func newShop(t *testing.T, file string) *shop {
	st, _, err := openStore(file, false)
	require.NoError(t, err)
	timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
	require.NoError(t, err)
	s := &shop{store: st, timer: timer, fail: func(err error) { t.Error(err) }, told: func(uint64, state) {}}
	s.timeouts = keyed.New(timer, s.expire)
	require.NoError(t, st.pending(s.arm))
	return s
}

func (s *shop) close(t *testing.T) {
	_, err := s.timer.Shutdown(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.store.db.Close())
}

func (s *shop) mustOpen(t *testing.T, timeToPay time.Duration) uint64 {
	id, err := s.open(timeToPay)
	require.NoError(t, err)
	return id
}

// requireEnd requires that an order has ended once, at that time.
func (s *shop) requireEnd(t *testing.T, id uint64, to state, at time.Time) {
	t.Helper()
	ends := s.store.orders(t)[id].Ends
	require.Len(t, ends, 1)
	require.Equal(t, to, ends[0].State)
	require.Zero(t, ends[0].At.Sub(at))
}

// An order is canceled at the tick boundary after its deadline. A paid one leaves the wheel.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, newFile(t))
		defer s.close(t)
		unpaid, settled := s.mustOpen(t, 95*time.Millisecond), s.mustOpen(t, time.Minute)
		opened := time.Now()
		require.Equal(t, 2, s.timeouts.Len())
		require.NoError(t, s.pay(settled))
		require.Equal(t, 1, s.timeouts.Len())
		time.Sleep(time.Hour)
		require.NoError(t, s.pay(unpaid)) // changes nothing
		// The first order was opened one batch before the second one, and its deadline is 5 ms before a boundary.
		s.requireEnd(t, unpaid, canceled, opened.Add(-batch+100*time.Millisecond+batch))
		s.requireEnd(t, settled, paid, opened.Add(batch))
	})
}

// Orders that came due while no process ran are canceled at once. The others keep their deadlines.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		s := newShop(t, file)
		overdue, later := s.mustOpen(t, time.Minute), s.mustOpen(t, time.Hour)
		deadline := time.Now().Add(time.Hour)
		s.close(t)
		time.Sleep(10 * time.Minute)
		restarted := time.Now()
		for range 2 { // the second restart changes nothing
			s = newShop(t, file)
			time.Sleep(time.Minute)
			s.requireEnd(t, overdue, canceled, restarted.Add(tick+batch))
			require.Equal(t, 1, s.timeouts.Len())
			s.close(t)
		}
		s = newShop(t, file)
		defer s.close(t)
		time.Sleep(time.Hour)
		s.requireEnd(t, later, canceled, deadline.Add(batch))
	})
}

// Payments come a little before, at and after the deadlines. Whichever is first, each order ends once.
func TestPaymentMeetsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, newFile(t))
		defer s.close(t)
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				id := s.mustOpen(t, time.Second)
				time.Sleep(time.Second + time.Duration(i-150)*100*time.Microsecond)
				assert.NoError(t, s.pay(id))
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		has, err := s.store.check()
		require.NoError(t, err)
		require.Equal(t, 300, has[paid]+has[canceled])
		require.Greater(t, has[paid], 50)
		require.Greater(t, has[canceled], 50)
	})
}

// The wall clock is set back by an hour. So the deadline comes an hour later.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, newFile(t))
		defer s.close(t)
		var step atomic.Int64
		s.store.now = func() time.Time { return time.Now().Add(time.Duration(step.Load())) }
		id := s.mustOpen(t, time.Second)
		deadline := time.Now().Add(time.Second)
		step.Store(int64(-time.Hour))
		time.Sleep(2 * time.Hour)
		s.requireEnd(t, id, canceled, deadline.Add(batch)) // by the wall clock
	})
}

// A failure of the store ends the program before its time is over.
func TestStoreFails(t *testing.T) {
	for _, customers := range []int{0, 1} { // it fails in expire, or in pay
		synctest.Test(t, func(t *testing.T) {
			st, _, err := openStore(newFile(t), false)
			require.NoError(t, err)
			defer st.db.Close()
			id, _, err := st.open(time.Minute)
			require.NoError(t, err)
			spoil := func(id uint64, _ state) {
				assert.NoError(t, st.db.Update(func(tx *bbolt.Tx) error {
					return tx.Bucket(ordersBucket).Put(key(id), nil)
				}))
			}
			spoil(id, open)
			began := time.Now()
			require.ErrorContains(t, serve(t.Context(), st, customers, spoil), "unexpected end of JSON input")
			require.Equal(t, customers == 0, time.Since(began) > 50*time.Second)
		})
	}
}
