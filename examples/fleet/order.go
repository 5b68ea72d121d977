package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The states of an order. The bucket holds them, and each change is a compare-and-set on the
// revision of the key. So an order ends once, even if several processes ask for its end again and again.
//
//	          open() ----> open --- payment ----> paid
//	(no key)                 \----- deadline ---> canceled
//	          deadline ------------------------> void
//
// The deadline of an order is a message of a stream. The server gives it to one owner at a time:
//
//	owner            where it is                    handed on
//	the stream       a schedule, deadlines.at.ID    by the server, a window before the deadline
//	the consumer     a message, deadlines.due.ID    to a worker that asks for more
//	a worker         its wheel; unacknowledged      acknowledged once the order has ended, or handed
//	                 in the stream                  to another worker if no sign of life came for a lease
//
// A deadline that is near when the order is placed skips the schedule. A payment withdraws the
// deadline: it deletes the schedule, or tells the workers. That only saves work, because a worker just
// acknowledges a deadline whose order has ended.
//
// What a crash leaves behind, and who finishes it:
//
//   - The shop, between schedule and order: a deadline without an order. The worker that gets the
//     deadline makes the key, in the state void. If the shop was only slow, its order is then refused.
//     If the order came first, a crash could leave an order that nobody ever ends.
//   - The shop, between payment and withdrawal: a deadline of a paid order. See above.
//   - A worker that holds deadlines: the server gives them to other workers when the lease is over.
//     Orders that are due by then are canceled late, by about a lease at most.
//   - A worker, between cancellation and acknowledgment: the same. The next worker sees that the
//     order has ended. So a notice of the cancellation to others would have to be sent at least once.
//   - A worker that was only cut off, and continues: two workers hold the deadline, and one
//     compare-and-set succeeds.
//   - A server: if there are three replicas, the two others elect a leader. Requests fail meanwhile,
//     and are repeated. A request whose answer was lost may have been carried out, see [ledger.end].
//   - All servers: they read schedules, messages and orders from their files when they start again.
type state string

const (
	open     state = "open"
	paid     state = "paid"
	canceled state = "canceled"
	void     state = "void" // the deadline came before the order, which is refused
)

// An order is the value of its key. Times are those of the wall clock, so the clocks of all machines
// must be synchronized.
type order struct {
	State    state     `json:"state"`
	Created  time.Time `json:"created,omitzero"`
	Deadline time.Time `json:"deadline"`

	// When the order ended, by the clock of the machine that ended it, who ended it, and in which
	// delivery of its deadline.
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
