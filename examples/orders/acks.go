package main

import (
	"bytes"
	"fmt"
	"strings"
)

// acks are the changes that shops have acknowledged, one process after another.
type acks struct {
	created, paid, canceled, refused map[uint64]int // how often, by order id

	loaded loaded // the sum over all shops that have started
	wrong  error  // the error of the first line that could not be parsed
}

// loaded are the open orders that a shop found when it started.
type loaded struct {
	armed   int // due within the horizon, or overdue
	overdue int
	beyond  int // due later
}

func newAcks() *acks {
	return &acks{
		created: make(map[uint64]int), paid: make(map[uint64]int),
		canceled: make(map[uint64]int), refused: make(map[uint64]int),
	}
}

// add takes a line of a shop's output.
func (a *acks) add(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	var ids map[uint64]int
	switch verb {
	case "loaded":
		var l loaded
		if _, err := fmt.Sscan(rest, &l.armed, &l.overdue, &l.beyond); err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
		a.loaded.armed += l.armed
		a.loaded.overdue += l.overdue
		a.loaded.beyond += l.beyond
		return nil
	case "created":
		ids = a.created
	case "paid":
		ids = a.paid
	case "canceled":
		ids = a.canceled
	case "refused":
		ids = a.refused
	default:
		return fmt.Errorf("line %q: unknown", line)
	}
	var id uint64
	if _, err := fmt.Sscan(rest, &id); err != nil {
		return fmt.Errorf("line %q: %w", line, err)
	}
	ids[id]++
	return nil
}

// A lineReader parses the output of one process. It ignores a last line without an end, because the
// process was killed while it wrote that line.
type lineReader struct {
	acks *acks
	rest []byte
}

func (r *lineReader) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	for {
		line, rest, found := bytes.Cut(r.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		if err := r.acks.add(string(line)); err != nil && r.acks.wrong == nil {
			r.acks.wrong = err
		}
		r.rest = rest
	}
}
