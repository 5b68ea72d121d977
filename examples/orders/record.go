package main

import (
	"encoding/binary"
	"fmt"
	"time"
)

// A state is the state of an order. It changes once, from open to paid or canceled.
type state byte

const (
	open state = iota + 1 // not 0, so that an empty record has no state
	paid
	canceled
)

func (s state) String() string {
	switch s {
	case 0:
		return "nothing"
	case open:
		return "open"
	case paid:
		return "paid"
	case canceled:
		return "canceled"
	}
	return fmt.Sprintf("state %d", byte(s))
}

// An order waits for its payment until the deadline. Times are those of the wall clock, to the
// nanosecond, because other clocks have no meaning after a restart.
type order struct {
	id       uint64
	state    state
	created  time.Time
	deadline time.Time
}

// A change is an entry of the audit trail: the new state of an order, and when it changed. The transaction
// that makes the change writes the entry.
type change struct {
	seq uint64 // 1, 2, 3 and so on without a gap
	id  uint64
	to  state
	at  time.Time
}

// Numbers are stored big endian, so that bbolt sorts keys by number. Times are nanoseconds since 1970, and
// must not be before that.

const (
	keySize    = 8
	indexSize  = 8 + 8
	recordSize = 1 + 8 + 8
)

func appendTime(b []byte, t time.Time) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(t.UnixNano()))
}

func timeAt(b []byte) time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(b))) }

// key returns the key of an order with that id, or of a change with that sequence number.
func key(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// indexKey returns the key of an open order in the index: its deadline, then its id.
func indexKey(deadline time.Time, id uint64) []byte {
	return binary.BigEndian.AppendUint64(appendTime(make([]byte, 0, indexSize), deadline), id)
}

func parseIndexKey(k []byte) (deadline time.Time, id uint64, err error) {
	if len(k) != indexSize {
		return deadline, 0, fmt.Errorf("index key of %d bytes: it must have %d", len(k), indexSize)
	}
	return timeAt(k), binary.BigEndian.Uint64(k[8:]), nil
}

func (o order) encode() []byte {
	b := append(make([]byte, 0, recordSize), byte(o.state))
	return appendTime(appendTime(b, o.created), o.deadline)
}

func parseOrder(k, v []byte) (order, error) {
	if len(k) != keySize || len(v) != recordSize {
		return order{}, fmt.Errorf("order with a key of %d bytes and a record of %d: they must have %d and %d",
			len(k), len(v), keySize, recordSize)
	}
	return order{id: binary.BigEndian.Uint64(k), state: state(v[0]), created: timeAt(v[1:]), deadline: timeAt(v[9:])}, nil
}

func (c change) encode() []byte {
	b := append(make([]byte, 0, recordSize), byte(c.to))
	return appendTime(binary.BigEndian.AppendUint64(b, c.id), c.at)
}

func parseChange(k, v []byte) (change, error) {
	if len(k) != keySize || len(v) != recordSize {
		return change{}, fmt.Errorf("audit entry with a key of %d bytes and a record of %d: they must have %d and %d",
			len(k), len(v), keySize, recordSize)
	}
	return change{seq: binary.BigEndian.Uint64(k), to: state(v[0]), id: binary.BigEndian.Uint64(v[1:]), at: timeAt(v[9:])}, nil
}
