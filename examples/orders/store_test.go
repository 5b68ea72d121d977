package main

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// batchDelay is how long bbolt waits for more calls of Batch.
const batchDelay = 10 * time.Millisecond

func mustOpen(t *testing.T, file string) *store {
	t.Helper()
	s, err := openStore(file)
	require.NoError(t, err)
	require.Equal(t, batchDelay, s.db.MaxBatchDelay)
	return s
}

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "orders.db") }

func mustContents(t *testing.T, s *store) *contents {
	t.Helper()
	c, err := s.contents()
	require.NoError(t, err)
	require.NoError(t, verify(c, newAcks(), false))
	return c
}

// dueBefore returns the ids of the due orders, in the order in which due finds them.
func dueBefore(t *testing.T, s *store, until time.Time) (ids []uint64) {
	t.Helper()
	require.NoError(t, s.due(until, func(id uint64, _ time.Time) error {
		ids = append(ids, id)
		return nil
	}))
	return ids
}

// commits returns how many transactions have changed the database.
func commits(t *testing.T, s *store) (n int) {
	t.Helper()
	require.NoError(t, s.db.View(func(tx *bbolt.Tx) error {
		n = tx.ID()
		return nil
	}))
	return n
}

// Every step is checked to the nanosecond and to the last entry. All of it is still there after reopening.
func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		s := mustOpen(t, file)
		defer func() { s.close() }()
		same := func(want *contents) {
			t.Helper()
			require.Equal(t, want, mustContents(t, s))
			require.NoError(t, s.close())
			s = mustOpen(t, file)
			require.Equal(t, want, mustContents(t, s))
		}
		want := &contents{orders: map[uint64]order{}}
		same(want)

		for id := uint64(1); id <= 3; id++ {
			timeout := time.Duration(4-id) * time.Second // the last order is due first
			at := time.Now().Add(batchDelay).Round(0)
			o, err := s.create(timeout)
			require.NoError(t, err)
			require.Equal(t, order{id: id, state: open, created: at, deadline: at.Add(timeout)}, o)
			want.orders[id] = o
			want.index = append([]order{{id: id, deadline: o.deadline}}, want.index...)
			want.trail = append(want.trail, change{seq: id, id: id, to: open, at: at})
			same(want)
		}

		step := func(call func(uint64) (order, bool, error), id uint64, ok bool, becomes state) {
			t.Helper()
			at := time.Now().Add(batchDelay).Round(0)
			o, got, err := call(id)
			require.NoError(t, err)
			require.Equal(t, ok, got)
			if ok {
				changed := want.orders[id]
				changed.state = becomes
				want.orders[id] = changed
				for i, e := range want.index {
					if e.id == id {
						want.index = append(want.index[:i:i], want.index[i+1:]...)
						break
					}
				}
				want.trail = append(want.trail, change{seq: uint64(len(want.trail)) + 1, id: id, to: becomes, at: at})
			}
			require.Equal(t, want.orders[id], o)
			require.Equal(t, becomes, o.state)
			if len(want.index) == 0 {
				want.index = nil
			}
			same(want)
		}
		step(func(id uint64) (order, bool, error) { return s.pay(id) }, 1, true, paid)
		step(func(id uint64) (order, bool, error) { return s.pay(id) }, 1, false, paid)
		step(func(id uint64) (order, bool, error) { return s.cancel(id) }, 2, false, open)
		time.Sleep(time.Until(want.orders[2].deadline) - batchDelay - 1)
		step(func(id uint64) (order, bool, error) { return s.cancel(id) }, 2, false, open) // too early by a nanosecond
		step(func(id uint64) (order, bool, error) { return s.cancel(id) }, 2, true, canceled)
		step(func(id uint64) (order, bool, error) { return s.cancel(id) }, 2, false, canceled)
		step(func(id uint64) (order, bool, error) { return s.pay(id) }, 2, false, canceled)
		step(func(id uint64) (order, bool, error) { return s.pay(id) }, 3, true, paid) // late, but not yet canceled
		time.Sleep(time.Hour)
		step(func(id uint64) (order, bool, error) { return s.cancel(id) }, 1, false, paid)
		n, err := s.open()
		require.NoError(t, err)
		require.Zero(t, n)

		for _, id := range []uint64{0, 4} {
			_, ok, err := s.pay(id)
			require.False(t, ok)
			require.ErrorIs(t, err, errNoOrder)
		}
		same(want)
	})
}

func TestIndexIsByDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, newFile(t))
		defer s.close()
		start := time.Now()
		for _, timeout := range []time.Duration{300, 100, 2, 70000, 200} { // one after another, each takes batchDelay
			_, err := s.create(timeout * time.Second)
			require.NoError(t, err)
		}
		require.Equal(t, []uint64{3, 2, 5, 1, 4}, dueBefore(t, s, start.Add(100*time.Hour)))
		second := start.Add(100*time.Second + 2*batchDelay)
		require.Equal(t, []uint64{3}, dueBefore(t, s, second), "the deadline itself is not before it")
		require.Equal(t, []uint64{3, 2}, dueBefore(t, s, second.Add(1)))
		require.Empty(t, dueBefore(t, s, start))
		n, err := s.open()
		require.NoError(t, err)
		require.Equal(t, 5, n)

		stop := errors.New("stop")
		calls := 0
		require.Equal(t, stop, s.due(start.Add(time.Hour), func(uint64, time.Time) error { calls++; return stop }))
		require.Equal(t, 1, calls)
	})
}

// A failure in a transaction does not make other changes fail, and leaves nothing behind.
func TestFailureInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, newFile(t))
		defer s.close()
		boom := errors.New("boom")
		failed := 0
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				if i%5 == 0 {
					err := s.db.Batch(func(tx *bbolt.Tx) error {
						failed++ // without a lock, because there is one transaction at a time
						return errors.Join(audit(tx, 99, paid, s.now()), boom)
					})
					require.ErrorIs(t, err, boom)
					return
				}
				_, err := s.create(time.Second)
				require.NoError(t, err)
			})
		}
		calls.Wait()
		require.Greater(t, failed, 4, "the functions that failed were called again")
		c := mustContents(t, s)
		require.Len(t, c.orders, 16)
		require.Len(t, c.trail, 16)
	})
}

func TestWrongFiles(t *testing.T) {
	_, err := openToRead(newFile(t))
	require.ErrorContains(t, err, "no such file")

	file := newFile(t)
	db, err := bbolt.Open(file, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = openToRead(file)
	require.ErrorContains(t, err, "not a database of orders")

	s := mustOpen(t, file)
	require.NoError(t, s.db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(
			tx.Bucket(ordersBucket).Put(key(7), []byte("x")),
			tx.Bucket(indexBucket).Put([]byte("x"), nil),
			tx.Bucket(auditBucket).Put([]byte("x"), nil),
		)
	}))
	_, _, err = s.pay(7)
	require.ErrorContains(t, err, "order with a key of 8 bytes and a record of 1")
	require.ErrorContains(t, s.due(time.Now(), nil), "index key of 1 bytes")
	_, err = s.contents()
	require.ErrorContains(t, err, "audit entry with a key of 1 bytes")
	require.NoError(t, s.close())
}
