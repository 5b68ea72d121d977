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
	ordersBucket = []byte("orders")    // id: the order
	indexBucket  = []byte("deadlines") // deadline and id: nothing
	auditBucket  = []byte("audit")     // sequence number: the change

	buckets = [][]byte{ordersBucket, indexBucket, auditBucket}
)

var errNoOrder = errors.New("no such order")

// A store holds the orders in a file. Its methods may be called by any goroutine. What changes
// something returns when the change is on disk, and is one transaction with its audit entry.
//
// The changes go through bbolt's Batch: those of many goroutines that come within 10 ms share a
// transaction, and so its fsync. Batch undoes the whole transaction if one of them fails, and
// begins again. So a change that is refused is no error there, and what a function has found out
// must not be left over from a call that was undone.
type store struct {
	db  *bbolt.DB
	now func() time.Time // the wall clock, which tests step
}

// openStore opens a database, or makes one. It must not be in use by another process.
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

// openToRead opens a database that is there, to be read only.
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

// create makes an order that is open for a time from now.
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

// pay has an open order paid, and reports whether it did. The order is returned as it is then.
// One whose deadline has passed can be paid until it is canceled: whichever transaction comes
// first decides, and nothing else does.
func (s *store) pay(id uint64) (order, bool, error) { return s.end(id, paid) }

// cancel has an open order canceled if its deadline has passed, and reports whether it did. The
// order is returned as it is then.
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

// due calls f for each open order whose deadline is before until, the earliest first. An error of
// f's ends it, and is returned.
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
