package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"go.etcd.io/bbolt"
)

var (
	ordersBucket    = []byte("orders")    // each order as JSON, by id
	deadlinesBucket = []byte("deadlines") // the open orders, by deadline and id, with empty values
)

// A state is the state of an order. It changes once, from open to paid or canceled.
type state string

const (
	open     state = "open"
	paid     state = "paid"
	canceled state = "canceled"
)

// An order records each end, so that a check of the file sees an order that has ended twice or too soon.
type order struct {
	Deadline time.Time
	Ends     []end
}

type end struct {
	State state
	At    time.Time
}

func (o order) state() state {
	if len(o.Ends) == 0 {
		return open
	}
	return o.Ends[0].State
}

// A store has the orders in a file. When a method that makes a change returns, the change is on disk.
//
// The methods use bbolt's Batch, which collects the changes of many goroutines for 10 ms and writes them in one
// transaction. If one change fails, Batch calls the functions of the others again, so they must set all results anew.
type store struct {
	db  *bbolt.DB
	now func() time.Time // the wall clock
}

// open makes an order that can be paid within the timeout.
func (s *store) open(timeout time.Duration) (id uint64, deadline time.Time, err error) {
	err = s.db.Batch(func(tx *bbolt.Tx) error {
		var err error
		if id, err = tx.Bucket(ordersBucket).NextSequence(); err != nil {
			return err
		}
		deadline = s.now().Add(timeout)
		return errors.Join(
			put(tx, id, order{Deadline: deadline}),
			tx.Bucket(deadlinesBucket).Put(deadlineKey(deadline, id), nil))
	})
	return id, deadline, err
}

// end pays or cancels an order, and returns the order as it is then. It changes nothing if the order has ended, or if
// its deadline is still to come and it would be canceled.
func (s *store) end(id uint64, to state) (o order, changed bool, err error) {
	err = s.db.Batch(func(tx *bbolt.Tx) error {
		o, changed = order{}, false
		if err := json.Unmarshal(tx.Bucket(ordersBucket).Get(key(id)), &o); err != nil {
			return err
		}
		now := s.now()
		if o.state() != open || to == canceled && now.Before(o.Deadline) {
			return nil
		}
		o.Ends, changed = append(o.Ends, end{to, now}), true
		return errors.Join(
			put(tx, id, o),
			tx.Bucket(deadlinesBucket).Delete(deadlineKey(o.Deadline, id)))
	})
	return o, changed && err == nil, err
}

// pending calls f for each open order, the earliest deadline first.
func (s *store) pending(f func(id uint64, deadline time.Time) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(deadlinesBucket).ForEach(func(k, _ []byte) error {
			nanos, id := binary.BigEndian.Uint64(k), binary.BigEndian.Uint64(k[8:])
			return f(id, time.Unix(0, int64(nanos)))
		})
	})
}

func put(tx *bbolt.Tx, id uint64, o order) error {
	value, err := json.Marshal(o)
	return errors.Join(err, tx.Bucket(ordersBucket).Put(key(id), value))
}

// key returns the key of an order. It is big endian, because bbolt sorts keys by their bytes.
func key(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func deadlineKey(deadline time.Time, id uint64) []byte {
	return binary.BigEndian.AppendUint64(key(uint64(deadline.UnixNano())), id)
}
