package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(ms int) time.Time { return time.UnixMilli(1_000_000 + int64(ms)) }

// proper returns a correct database of three orders, and the acknowledgments. One order is paid, one is
// canceled, and one is open.
func proper() (*contents, *acks) {
	c := &contents{
		orders: map[uint64]order{
			1: {id: 1, state: paid, created: at(0), deadline: at(100)},
			2: {id: 2, state: canceled, created: at(1), deadline: at(101)},
			3: {id: 3, state: open, created: at(2), deadline: at(102)},
		},
		index: []order{{id: 3, deadline: at(102)}},
		trail: []change{
			{seq: 1, id: 1, to: open, at: at(0)},
			{seq: 2, id: 2, to: open, at: at(1)},
			{seq: 3, id: 3, to: open, at: at(2)},
			{seq: 4, id: 1, to: paid, at: at(50)},
			{seq: 5, id: 2, to: canceled, at: at(101)},
		},
	}
	a := newAcks()
	a.created[1], a.created[2], a.paid[1], a.canceled[2], a.refused[2] = 1, 1, 1, 1, 1
	return c, a
}

// Each condition is broken in turn, and the error names it.
func TestVerify(t *testing.T) {
	c, a := proper()
	require.NoError(t, verify(c, a, false))
	for want, spoil := range map[string]func(c *contents, a *acks){
		"order 4 was acknowledged as created, but is not in the":      func(c *contents, a *acks) { a.created[4] = 1 },
		"order 2 was acknowledged as paid, but is canceled":           func(c *contents, a *acks) { a.paid[2] = 1 },
		"order 3 was acknowledged as canceled, but is open":           func(c *contents, a *acks) { a.canceled[3] = 1 },
		"order 2 was acknowledged as canceled 2 times":                func(c *contents, a *acks) { a.canceled[2]++ },
		"order 1 was acknowledged as refused to be paid, but is paid": func(c *contents, a *acks) { a.refused[1] = 1 },
		"order 2 was canceled 1ms before its deadline":                func(c *contents, a *acks) { c.trail[4].at = at(100) },
		"order 2 is canceled by entry 6 of the audit trail, after it was": func(c *contents, a *acks) {
			c.trail = append(c.trail, change{seq: 6, id: 2, to: canceled, at: at(200)})
		},
		"order 1 is canceled by entry 6 of the audit trail, after it was": func(c *contents, a *acks) {
			c.trail = append(c.trail, change{seq: 6, id: 1, to: canceled, at: at(200)})
		},
		"order 3 is open by entry 6 of the audit trail, after it was": func(c *contents, a *acks) { c.trail = append(c.trail, change{seq: 6, id: 3, to: open, at: at(200)}) },
		"order 2 is canceled, but open by the audit trail":            func(c *contents, a *acks) { c.trail = c.trail[:4] },
		"entry 5 of the audit trail has number 6":                     func(c *contents, a *acks) { c.trail[4].seq = 6 },
		"1 orders are only in the audit trail":                        func(c *contents, a *acks) { delete(c.orders, 1) },
		"1 orders are open, but 0 are in the index":                   func(c *contents, a *acks) { c.index = nil },
		"order 2 is canceled, due": func(c *contents, a *acks) {
			c.index = append(c.index, order{id: 2, deadline: at(101)})
		},
		"order 3 is open, due":               func(c *contents, a *acks) { c.index[0].deadline = at(103) },
		`output of the shop: line "": unkno`: func(c *contents, a *acks) { a.wrong = a.add("") },
		"and 11 more": func(c *contents, a *acks) {
			for id := range uint64(21) {
				a.created[100+id] = 1
			}
		},
	} {
		c, a := proper()
		spoil(c, a)
		require.ErrorContains(t, verify(c, a, false), want)
	}
	require.ErrorContains(t, verify(c, a, true), "1 orders are still open at the end")
}

func TestLines(t *testing.T) {
	a := newAcks()
	r := &lineReader{acks: a}
	for _, part := range []string{"loaded 5 2 1\ncrea", "ted 7", "\n", "paid 7\ncanceled 8\nrefused 8\nloaded 1 0 0\n", "created 9"} {
		n, err := r.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.NoError(t, a.wrong)
	require.Equal(t, loaded{armed: 6, overdue: 2, beyond: 1}, a.loaded)
	require.Equal(t, map[uint64]int{7: 1}, a.created, "an incomplete line does not count")
	require.Equal(t, map[uint64]int{7: 1}, a.paid)
	require.Equal(t, map[uint64]int{8: 1}, a.canceled)
	require.Equal(t, map[uint64]int{8: 1}, a.refused)
	for _, line := range []string{"paid", "paid x", "loaded 1 2", "sold 1", ""} {
		require.ErrorContains(t, a.add(line), "line ")
	}
	r.Write([]byte("\n"))
	require.Equal(t, 1, a.created[9])
	r.Write([]byte("x\ny\n"))
	require.ErrorContains(t, a.wrong, `line "x"`)
}

func TestLateness(t *testing.T) {
	c := &contents{orders: map[uint64]order{}}
	cancel := func(deadline, when int) {
		id := uint64(len(c.orders)) + 1
		c.orders[id] = order{id: id, state: canceled, deadline: at(deadline)}
		c.trail = append(c.trail, change{seq: id, id: id, to: canceled, at: at(when)})
	}
	cancel(-20, -10) // before the first start
	cancel(-5, 4)    // due before it
	cancel(10, 13)
	cancel(40, 56) // due in the first process, canceled by the second
	cancel(50, 57) // due when the second was started
	up, down := c.lateness([]time.Time{at(0), at(50)})
	ms := time.Millisecond
	require.Equal(t, []time.Duration{3 * ms, 7 * ms}, up)
	require.Equal(t, []time.Duration{4 * ms, 6 * ms}, down)

	var b bytes.Buffer
	printLateness(&b, "name", append(up, down...))
	require.Equal(t, "  name                      4  p50    6.0 ms  max    7.0 ms\n", b.String())
}
