package deadlines

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// All yields the deadlines that are Pending or Running, in no order. It reads the records of the whole store, also of
// deadlines that have ended, and keeps none of them in memory.
//
// The store may be in use. A deadline that is set during the whole loop is yielded. One that changes meanwhile may be
// yielded as it was, as it is, or both.
//
// An error ends the loop, and what was yielded before may not be all: see ErrIncomplete. The only exception is an error
// with a Deadline that has a Key. Then the record of that key cannot be read, and the loop goes on.
func (s *Store) All(ctx context.Context) iter.Seq2[Deadline, error] {
	return func(yield func(Deadline, error) bool) {
		ended, err := s.each(ctx, func(e jetstream.KeyValueEntry) bool {
			r, err := parseRecord(e.Value())
			if err != nil {
				return yield(Deadline{Key: e.Key()}, fmt.Errorf("deadlines: list %s: revision %d is %w", quote(e.Key()), e.Revision(), err))
			}
			if r.stored = e.Created().UTC(); r.Status != Pending && r.Status != Running {
				return true
			}
			return yield(r.deadline(e.Key()), nil)
		})
		if err != nil && !ended {
			yield(Deadline{}, fmt.Errorf("deadlines: list: %w", err))
		}
	}
}

// each calls f for the last revision of each key until it returns false, and reports whether it has.
func (s *Store) each(ctx context.Context, f func(jetstream.KeyValueEntry) bool) (ended bool, err error) {
	if s.ctx.Err() != nil {
		return false, ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	records := s.link().records
	var before *jetstream.StreamInfo
	var watcher jetstream.KeyWatcher
	limited, stop := context.WithTimeout(ctx, s.cfg.Timeout)
	defer stop()
	err = s.persist(limited, func(attempt context.Context) (err error) {
		if before, err = records.Info(attempt); err == nil {
			watcher, err = s.link().bucket.WatchAll(ctx)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	defer stopWatcher(watcher)
	read := 0
	for {
		silence := time.NewTimer(silenceLimit)
		var e jetstream.KeyValueEntry
		ok := true
		select {
		case e, ok = <-watcher.Updates():
		case <-silence.C:
			err = errSilent
		case <-s.ctx.Done():
			err = ErrClosed
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		silence.Stop()
		switch {
		case err != nil:
			return false, err
		case !ok:
			return false, errors.Join(errors.New("the records could not be read to the end"), ctx.Err())
		case e == nil:
			return false, s.complete(ctx, read, before)
		}
		read++
		if e.Operation() == jetstream.KeyValuePut && !f(e) {
			return true, nil
		}
	}
}

// complete compares how many keys were read with how many the bucket has had all the time.
func (s *Store) complete(ctx context.Context, read int, before *jetstream.StreamInfo) error {
	limited, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	var now *jetstream.StreamInfo
	err := s.persist(limited, func(ctx context.Context) (err error) {
		now, err = s.link().records.Info(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if held := int(now.State.NumSubjects) - int(now.State.LastSeq-before.State.LastSeq); read < held {
		return fmt.Errorf("%w: %d of %d keys", ErrIncomplete, read, held)
	}
	return nil
}

// stopWatcher stops a watcher whose updates may not all have been taken. Package nats would wait for that for ever.
func stopWatcher(w jetstream.KeyWatcher) {
	w.Stop()
	go func() {
		for range w.Updates() { // until it is closed
		}
	}()
}
