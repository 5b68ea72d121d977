package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"
)

// contents are everything in a database.
type contents struct {
	orders map[uint64]order
	index  []order  // id and deadline of each entry
	trail  []change // the audit trail
}

// readContents reads a database. No process may have it open.
func readContents(file string) (*contents, error) {
	s, err := openToRead(file)
	if err != nil {
		return nil, err
	}
	c, err := s.contents()
	return c, errors.Join(err, s.close())
}

func (s *store) contents() (*contents, error) {
	c := &contents{orders: make(map[uint64]order)}
	err := s.db.View(func(tx *bbolt.Tx) error {
		return errors.Join(
			tx.Bucket(ordersBucket).ForEach(func(k, v []byte) error {
				o, err := parseOrder(k, v)
				c.orders[o.id] = o
				return err
			}),
			tx.Bucket(indexBucket).ForEach(func(k, _ []byte) error {
				deadline, id, err := parseIndexKey(k)
				c.index = append(c.index, order{id: id, deadline: deadline})
				return err
			}),
			tx.Bucket(auditBucket).ForEach(func(k, v []byte) error {
				ch, err := parseChange(k, v)
				c.trail = append(c.trail, ch)
				return err
			}),
		)
	})
	return c, err
}

// count returns the number of orders in a state.
func (c *contents) count(in state) (n int) {
	for _, o := range c.orders {
		if o.state == in {
			n++
		}
	}
	return n
}

// A verdict collects the checks that fail.
type verdict struct {
	first []error
	n     int
}

func (v *verdict) must(ok bool, format string, args ...any) {
	const shown = 10
	if ok {
		return
	}
	if v.n++; v.n <= shown {
		v.first = append(v.first, fmt.Errorf(format, args...))
	}
}

// verify checks the orders, by themselves and against the acknowledgments. The error names the checks that
// fail. If ended is true, no order may be open.
func verify(c *contents, a *acks, ended bool) error {
	var v verdict
	v.must(a.wrong == nil, "output of the shop: %v", a.wrong)
	v.verifyTrail(c)
	v.verifyIndex(c)
	if ended {
		n := c.count(open)
		v.must(n == 0, "%d orders are still open at the end", n)
	}
	v.verifyAcks("created", a.created, c, open, paid, canceled)
	v.verifyAcks("paid", a.paid, c, paid)
	v.verifyAcks("canceled", a.canceled, c, canceled)
	v.verifyAcks("refused to be paid", a.refused, c, canceled)
	if v.n > len(v.first) {
		v.first = append(v.first, fmt.Errorf("and %d more", v.n-len(v.first)))
	}
	return errors.Join(v.first...)
}

// verifyTrail checks that each order was opened once, was ended at most once, was not canceled before its
// deadline, and has the state that the audit trail says.
func (v *verdict) verifyTrail(c *contents) {
	was := make(map[uint64]state)
	for i, ch := range c.trail {
		v.must(ch.seq == uint64(i)+1, "entry %d of the audit trail has number %d", i+1, ch.seq)
		before := was[ch.id]
		ok := before == 0 && ch.to == open || before == open && (ch.to == paid || ch.to == canceled)
		v.must(ok, "order %d is %v by entry %d of the audit trail, after it was %v", ch.id, ch.to, ch.seq, before)
		was[ch.id] = ch.to
		if early := c.orders[ch.id].deadline.Sub(ch.at); ch.to == canceled {
			v.must(early <= 0, "order %d was canceled %v before its deadline", ch.id, early)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.orders)) {
		v.must(c.orders[id].state == was[id], "order %d is %v, but %v by the audit trail", id, c.orders[id].state, was[id])
		delete(was, id)
	}
	v.must(len(was) == 0, "%d orders are only in the audit trail", len(was))
}

// verifyIndex checks that the index holds the open orders and no others.
func (v *verdict) verifyIndex(c *contents) {
	for _, e := range c.index {
		o := c.orders[e.id]
		v.must(o.state == open && o.deadline.Equal(e.deadline), "order %d is %v, due %v, but in the index as due %v",
			e.id, o.state, o.deadline, e.deadline)
	}
	n := c.count(open)
	v.must(n == len(c.index), "%d orders are open, but %d are in the index", n, len(c.index))
}

// verifyAcks checks that each order in acks was acknowledged once, and is in one of the given states.
func (v *verdict) verifyAcks(what string, acks map[uint64]int, c *contents, in ...state) {
	for _, id := range slices.Sorted(maps.Keys(acks)) {
		o, there := c.orders[id]
		v.must(there, "order %d was acknowledged as %s, but is not in the database", id, what)
		v.must(!there || slices.Contains(in, o.state), "order %d was acknowledged as %s, but is %v", id, what, o.state)
		v.must(acks[id] == 1, "order %d was acknowledged as %s %d times", id, what, acks[id])
	}
}
