package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The states of an order. The bucket holds them, and each change is a compare-and-set on the
// revision of the key. So an order ends once, however often and by whomever its end is asked for.
//
//	          open() ----> open --- payment ----> paid
//	(no key)                 \----- deadline ---> canceled
//	          deadline ------------------------> void
//
// The deadline of an order is a message of a stream. It has one owner at a time:
//
//	owner            where it is                    handed on
//	the stream       a schedule, deadlines.at.ID    the server, a window before the deadline
//	the consumer     a message, deadlines.due.ID    to a worker that asks for more
//	a worker         its wheel; unacknowledged      acknowledged once the order has ended, or handed
//	                 in the stream                  to another worker if no sign of life came for a lease
//
// A deadline that is near when the order is placed skips the schedule. A payment withdraws the
// deadline where it lies: it deletes the schedule, or tells the workers. Both only save work:
// a deadline that comes for an order that has ended is acknowledged, and nothing else.
//
// What a crash leaves behind, and who finishes it:
//
//   - The shop, between schedule and order: a deadline without an order. The worker that it comes
//     to makes the key, as void. A shop that was only slow is refused then. In the other sequence
//     an order could be left that nobody ever ends.
//   - The shop, between payment and withdrawal: a deadline of a paid order. See above.
//   - A worker that holds deadlines: the server gives them to others when their lease is over.
//     Those due by then are canceled late, by less than a lease.
//   - A worker, between cancellation and acknowledgment: the same. The next worker sees that the
//     order has ended. What it tells others at a cancellation must so be told at least once.
//   - A worker that was only cut off, and goes on: two hold the deadline, and one compare-and-set
//     succeeds.
//   - A server: with three replicas the two others elect a leader. Requests fail meanwhile, and
//     are repeated; one whose answer was lost may have been carried out, see [ledger.end].
//   - All servers: schedules, messages and orders are read from their files.
type state string

const (
	open     state = "open"
	paid     state = "paid"
	canceled state = "canceled"
	void     state = "void" // the deadline came before the order did, which is refused now
)

// An order is the value of its key. Times are those of the wall clock, which all machines share as
// well as they are synchronized.
type order struct {
	State    state     `json:"state"`
	Created  time.Time `json:"created,omitzero"`
	Deadline time.Time `json:"deadline"`

	// Who ended it, by that machine's clock, and how often the deadline had been delivered.
	Ended    time.Time `json:"ended,omitzero"`
	By       string    `json:"by"` // of an open order, who placed it
	Delivery int       `json:"delivery,omitzero"`
}

var errOrder = errors.New("not an order")

func (o order) encode() []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // a year beyond 9999
	}
	return b
}

func parseOrder(b []byte) (o order, err error) {
	if err := json.Unmarshal(b, &o); err != nil {
		return o, fmt.Errorf("%w: %v", errOrder, err)
	}
	switch o.State {
	case open, paid, canceled, void:
		return o, nil
	}
	return o, fmt.Errorf("%w: state %q", errOrder, o.State)
}
