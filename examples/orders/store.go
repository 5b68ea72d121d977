package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// The buckets. The index holds the open orders and no others.
var (
	ordersBucket = []byte("orders")    // the orders, by id
	indexBucket  = []byte("deadlines") // empty values, by deadline and id
	auditBucket  = []byte("audit")     // the changes, by sequence number

	buckets = [][]byte{ordersBucket, indexBucket, auditBucket}
)

var errNoOrder = errors.New("no such order")

// A store holds the orders in a file. Its methods may be called by any goroutine. A method that makes a
// change returns when the change is on disk. The change and its audit entry are in one transaction.
//
// The changes go through bbolt's Batch: changes of many goroutines within 10 ms share a transaction and its
// fsync. If one of them fails, Batch undoes the whole transaction and begins again. So a function must not
// return an error for a change that it refuses, and must reset its results each time that Batch calls it.
type store struct {
	db  *bbolt.DB
	now func() time.Time // the wall clock, or that of a test
}

// openStore opens a database, or makes one. No other process may have it open.
func openStore(file string) (*store, error) {
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{Timeout: 5 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file, err), db.Close())
	}
	return &store{db: db, now: time.Now}, nil
}

// openToRead opens an existing database for reading.
func openToRead(file string) (*store, error) {
	if _, err := os.Stat(file); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(file, 0, &bbolt.Options{Timeout: time.Second, ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("no bucket %s: not a database of orders", name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file, err), db.Close())
	}
	return &store{db: db, now: time.Now}, nil
}

func (s *store) close() error { return s.db.Close() }

// create makes an open order that is due after timeout.
func (s *store) create(timeout time.Duration) (o order, err error) {
	err = s.db.Batch(func(tx *bbolt.Tx) error {
		orders := tx.Bucket(ordersBucket)
		id, err := orders.NextSequence()
		if err != nil {
			return err
		}
		now := s.now().Round(0)
		o = order{id: id, state: open, created: now, deadline: now.Add(timeout)}
		return errors.Join(
			orders.Put(key(id), o.encode()),
			tx.Bucket(indexBucket).Put(indexKey(o.deadline, id), nil),
			audit(tx, id, open, now),
		)
	})
	return o, err
}

// pay pays an open order, and reports whether it did. It returns the order as it is then. An order can be
// paid after its deadline until it is canceled: the first transaction decides.
func (s *store) pay(id uint64) (order, bool, error) { return s.end(id, paid) }

// cancel cancels an open order if its deadline has passed, and reports whether it did. It returns the order
// as it is then.
func (s *store) cancel(id uint64) (order, bool, error) { return s.end(id, canceled) }

func (s *store) end(id uint64, to state) (o order, ended bool, err error) {
	err = s.db.Batch(func(tx *bbolt.Tx) (err error) {
		o, ended = order{}, false
		orders := tx.Bucket(ordersBucket)
		v := orders.Get(key(id))
		if v == nil {
			return nil
		}
		if o, err = parseOrder(key(id), v); err != nil {
			return err
		}
		now := s.now()
		if o.state != open || to == canceled && now.Before(o.deadline) {
			return nil
		}
		o.state, ended = to, true
		return errors.Join(
			orders.Put(key(id), o.encode()),
			tx.Bucket(indexBucket).Delete(indexKey(o.deadline, id)),
			audit(tx, id, to, now),
		)
	})
	if err == nil && o.id == 0 { // ids begin at 1
		err = fmt.Errorf("order %d: %w", id, errNoOrder)
	}
	return o, ended && err == nil, err
}

// audit adds an entry to the trail.
func audit(tx *bbolt.Tx, id uint64, to state, at time.Time) error {
	b := tx.Bucket(auditBucket)
	seq, err := b.NextSequence()
	if err != nil {
		return err
	}
	return b.Put(key(seq), change{seq: seq, id: id, to: to, at: at}.encode())
}

// due calls f for each open order whose deadline is before until, the earliest first. It stops at the first
// error of f and returns that error.
func (s *store) due(until time.Time, f func(id uint64, deadline time.Time) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(indexBucket).Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			deadline, id, err := parseIndexKey(k)
			if err != nil {
				return err
			}
			if !deadline.Before(until) {
				return nil
			}
			if err := f(id, deadline); err != nil {
				return err
			}
		}
		return nil
	})
}

// open returns the number of open orders.
func (s *store) open() (n int, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		n = tx.Bucket(indexBucket).Stats().KeyN
		return nil
	})
	return n, err
}
