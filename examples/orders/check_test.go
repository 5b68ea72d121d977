package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "shop.db") }

func (s *store) orders(t *testing.T) map[uint64]order {
	orders := make(map[uint64]order)
	require.NoError(t, s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(ordersBucket).ForEach(func(k, v []byte) error {
			var o order
			err := json.Unmarshal(v, &o)
			orders[binary.BigEndian.Uint64(k)] = o
			return err
		})
	}))
	return orders
}

// fullFile returns the content of a file of 300 orders: in turn open, paid and canceled.
func fullFile(t *testing.T) []byte {
	file := newFile(t)
	s, _, err := openStore(file, false)
	require.NoError(t, err)
	s.db.MaxBatchSize = 1 // so that Batch does not wait
	s.db.NoSync = true
	for range 100 {
		for _, to := range []state{open, paid, canceled} {
			id, _, err := s.open(-time.Second)
			require.NoError(t, err)
			if to != open {
				_, changed, err := s.end(id, to)
				require.NoError(t, err)
				require.True(t, changed)
			}
		}
	}
	require.NoError(t, s.db.Close())
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return content
}

// requireDamaged requires that the program refuses a file with that content, with and without -check.
func requireDamaged(t *testing.T, content []byte, reason string) {
	t.Helper()
	for _, args := range [][]string{{}, {"-check"}} {
		file := newFile(t) // a new one, because the lock is kept when bbolt panics while it opens a file
		require.NoError(t, os.WriteFile(file, content, 0o600))
		err := run(t.Context(), append(args, "-db", file), io.Discard)
		var exit demo.Exit
		require.ErrorAs(t, err, &exit, reason)
		assert.Equal(t, 3, exit.Code)
		assert.ErrorContains(t, err, file+" is damaged: ")
		assert.ErrorContains(t, err, reason)
	}
}

// bbolt panics on some of these files, and reads beyond the end of others.
func TestDamagedFile(t *testing.T) {
	whole := fullFile(t)
	garbage := bytes.Repeat([]byte("garbage "), len(whole)/8)
	for _, content := range [][]byte{
		whole[:1], whole[:4096], whole[:8192], whole[:len(whole)/4], garbage, make([]byte, len(whole)),
		append(whole[:8192:8192], garbage...), append(garbage[:8192:8192], whole[8192:]...),
	} {
		requireDamaged(t, content, "")
	}

	noFreePages := bytes.Clone(whole)
	for page := 0; page < len(whole); page += os.Getpagesize() {
		if header := noFreePages[page+8:]; header[0] == 0x10 { // the flag of the list of free pages
			clear(header[2:4]) // its length
		}
	}
	requireDamaged(t, noFreePages, "unreachable unfreed")

	empty := newFile(t)
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.ErrorContains(t, run(t.Context(), []string{"-db", empty, "-check"}, io.Discard), "it is empty")
}

// Each condition is broken in turn.
func TestBrokenInvariant(t *testing.T) {
	whole := fullFile(t)
	hour := time.Now().Add(time.Hour)
	for reason, spoil := range map[string]func(tx *bbolt.Tx) error{
		"order 2 has ended twice": func(tx *bbolt.Tx) error {
			return put(tx, 2, order{Ends: []end{{paid, hour}, {canceled, hour}}})
		},
		"order 3 was canceled before its deadline": func(tx *bbolt.Tx) error {
			return put(tx, 3, order{Deadline: hour, Ends: []end{{canceled, hour.Add(-1)}}})
		},
		"order 2 is open, but listed with a deadline: false": func(tx *bbolt.Tx) error { return put(tx, 2, order{}) },
		"order 300 would be made again, after order 299": func(tx *bbolt.Tx) error {
			return tx.Bucket(ordersBucket).SetSequence(299)
		},
		`order 2 is "sold"`: func(tx *bbolt.Tx) error { return put(tx, 2, order{Ends: []end{{"sold", hour}}}) },
		"101 deadlines are listed for 100 open orders": func(tx *bbolt.Tx) error {
			return tx.Bucket(deadlinesBucket).Put(deadlineKey(hour, 2), nil)
		},
		"end of JSON":  func(tx *bbolt.Tx) error { return tx.Bucket(ordersBucket).Put(key(1), nil) },
		"out of range": func(tx *bbolt.Tx) error { return tx.Bucket(ordersBucket).Put([]byte("x"), []byte("{}")) },
		"nil pointer":  func(tx *bbolt.Tx) error { return tx.DeleteBucket(deadlinesBucket) },
	} {
		file := newFile(t)
		require.NoError(t, os.WriteFile(file, whole, 0o600))
		db, err := bbolt.Open(file, 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, db.Update(spoil))
		require.NoError(t, db.Close())
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		requireDamaged(t, content, reason)
	}
}
