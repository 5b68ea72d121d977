package deadlines

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// A Set stores a wake-up in the stream first, and then the record in the bucket. The rules that connect the
// two, whatever crashes in between:
//
//   - A Pending or Running record has its wake-up in the stream: the message with its token. Only a worker
//     removes that, after the record has ended or has another token.
//   - The record is written by a compare-and-set on the revision that was read before the wake-up was stored.
//     A wake-up carries that revision as Prior. If the record has a later revision and another token, the
//     compare-and-set has failed or will fail, so the worker drops the wake-up.
//   - If the record still has the revision Prior, the Set may be about to write, or its process may have died.
//     After a short wait the worker makes another revision of the record, so that a late Set fails and begins
//     again, and then drops the wake-up.
//   - A token belongs to one Prior. A Set that begins again with another revision uses another token, and so does one
//     that begins again without a record: that may be because another record came and went, and then a worker has
//     dropped the wake-up. A record stays longer than a request takes: see minRetain.

// Set sets the deadline of a key, with a payload for the handler. It replaces what the key had before: a
// pending deadline is moved, and one that ended begins again. If a handler runs for the key, it is not
// interrupted, and it is called again for the new deadline.
//
// A key has 1 to 1,024 letters, digits and any of "-/_=.". No dot is first, last, or beside another one. A payload may
// have three quarters of the max_payload of the servers, less 10 kB, which is 770 kB by default. A deadline in the past
// is due at once.
//
// When Set returns nil, the servers have stored the deadline. After any error it may have been stored or not. It may be
// set again, but if it has been handled meanwhile, it is then handled twice: see Create. Set does not wait when the
// servers have no room: the error wraps ErrNoRoom. Nor does it while the settings of the streams lose deadlines: the
// error wraps ErrMismatch.
func (s *Store) Set(ctx context.Context, key string, at time.Time, payload []byte) error {
	_, err := s.change(ctx, "set", key, at, func(record) (record, bool) {
		return record{Status: Pending, At: at.UTC().Round(0), Payload: payload}, true
	})
	if err == nil {
		s.counts.set.Add(1)
	}
	return err
}

// Create is Set for a key that has no deadline, neither a pending one nor one that has ended and is still retained.
// It reports whether it set the deadline. So a program may repeat it without starting again what has been handled.
func (s *Store) Create(ctx context.Context, key string, at time.Time, payload []byte) (bool, error) {
	created, err := s.change(ctx, "create", key, at, func(old record) (record, bool) {
		return record{Status: Pending, At: at.UTC().Round(0), Payload: payload}, old.Status == "" || old.Status == void
	})
	if created {
		s.counts.set.Add(1)
	}
	return created, err
}

// Move changes the time of a pending deadline and keeps its payload. It reports whether there was one.
func (s *Store) Move(ctx context.Context, key string, at time.Time) (bool, error) {
	moved, err := s.change(ctx, "move", key, at, func(old record) (record, bool) {
		ok := old.Status == Pending
		old.At = at.UTC().Round(0)
		return old, ok
	})
	if moved {
		s.counts.moved.Add(1)
	}
	return moved, err
}

// Cancel cancels a pending deadline. If it returns true, no call of the handler for that deadline begins any
// more, on any machine. An earlier call that failed may have had effects, and one whose worker lost its lease may
// still run. It returns false if there is no pending deadline: it was never set, has ended, or its handler is
// running.
//
// Cancel stores a revision of the record, so it needs room on the servers. It makes none when they are full.
func (s *Store) Cancel(ctx context.Context, key string) (bool, error) {
	canceled, err := s.change(ctx, "cancel", key, time.Time{}, func(old record) (record, bool) {
		ok := old.Status == Pending
		old.Status, old.Payload = Canceled, nil
		return old, ok
	})
	if canceled {
		s.counts.canceled.Add(1)
	}
	return canceled, err
}

// Get returns the deadline of a key, or ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (d Deadline, err error) {
	err = s.try(ctx, "get", key, func(ctx context.Context) error {
		r, err := s.load(ctx, key)
		if err == nil && (r.rev == 0 || r.Status == void) {
			return final{ErrNotFound}
		}
		d = r.deadline(key)
		return err
	})
	return d, err
}

// try persists within the Timeout, and says in the error what was tried.
func (s *Store) try(ctx context.Context, op, key string, attempt func(context.Context) error) error {
	err := checkKey(key)
	if err == nil && s.ctx.Err() != nil {
		err = ErrClosed
	}
	if err != nil {
		return fmt.Errorf("deadlines: %s %s: %w", op, quote(key), err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.Timeout)
		defer cancel()
	}
	err = s.persist(ctx, func(ctx context.Context) error {
		err := s.explain(attempt(ctx))
		if s.hopeless(err) {
			return final{err}
		}
		return err
	})
	if err == nil || errors.Is(err, ErrNotFound) {
		return err
	}
	return fmt.Errorf("deadlines: %s %s: %w", op, quote(key), err)
}

const opRepair = "repair" // of a record that has no wake-up to withdraw

// change replaces the record of a key by what next makes of it, if next agrees. A change whose answer was lost
// is recognized by its op, or by its token if a worker has claimed the deadline since.
func (s *Store) change(ctx context.Context, op, key string, at time.Time, next func(record) (record, bool)) (changed bool, err error) {
	if y := at.UTC().Year(); y < 1 || y > 9999 {
		return false, fmt.Errorf("deadlines: %s %s: the year %d is not from 1 to 9999", op, quote(key), y)
	}
	id := nuid.Next()
	var tokens []string // of wake-ups; the last one is for a record with the revision prior
	var prior uint64
	err = s.try(ctx, op, key, func(ctx context.Context) error {
		old, err := s.load(ctx, key)
		if err != nil {
			return err
		}
		if old.Op == id || slices.Contains(tokens, old.Token) {
			changed = true
			return nil
		}
		r, ok := next(old)
		if !ok {
			return nil
		}
		r.Op, r.By, r.rev = id, s.by, old.rev
		if r.Status == Pending {
			if danger := s.danger(); errors.Is(danger, ErrMismatch) {
				return final{danger}
			}
			if len(r.Payload) > payloadLimit(s.link().nc.MaxPayload()) {
				return final{tooLarge(len(r.Payload), s.link().nc.MaxPayload())}
			}
			if len(tokens) == 0 || prior != old.rev || old.rev == 0 {
				tokens, prior = append(tokens, newToken(r.At)), old.rev
			}
			r.Token, r.Deaths = tokens[len(tokens)-1], 0
			if err := s.wake(ctx, r.Token, wakeup{Key: key, At: r.At, Prior: prior}); err != nil {
				return err
			}
		}
		if _, err = s.save(ctx, key, r); err != nil {
			return err
		}
		changed = true
		if op != opRepair {
			s.withdraw(ctx, old)
		}
		return nil
	})
	return changed, err
}

// payloadLimit returns the most bytes of a payload, which a record has in base64.
func payloadLimit(maxPayload int64) int {
	return max(0, base64.StdEncoding.DecodedLen(int(maxPayload-headroom))/3*3)
}

func tooLarge(n int, maxPayload int64) error {
	return fmt.Errorf("%w: the payload has %d bytes, and at most %d are possible with the max_payload of the servers, %d",
		nats.ErrMaxPayload, n, payloadLimit(maxPayload), maxPayload)
}

// wake stores a wake-up: as a schedule, or as a message for the workers if the deadline is near. The ID makes
// the server drop a repetition.
func (s *Store) wake(ctx context.Context, token string, w wakeup) error {
	return s.wakeAs(ctx, token, token, w)
}

// wakeAs is wake with another ID than the token.
func (s *Store) wakeAs(ctx context.Context, id, token string, w wakeup) error {
	msg := &nats.Msg{Subject: s.subject("due", token), Data: encode(w), Header: nats.Header{}}
	opts := []jetstream.PublishOpt{jetstream.WithMsgID(id)}
	if far := w.At.Add(-s.window()); far.After(s.clock.now()) {
		opts = append(opts, jetstream.WithScheduleTarget(msg.Subject), jetstream.WithScheduleTTLNever())
		msg.Subject = s.subject("at", token)
		setSchedule(msg, far)
	}
	_, err := s.link().js.PublishMsg(ctx, msg, opts...)
	return s.permanent(err)
}

// withdraw removes the schedule of a record that has been replaced. This only saves memory of the server: a worker
// drops the wake-up of such a record. So an error does not matter, and a near one is left to the workers. It also removes
// a wake-up that was set aside. If that fails, the operator removes it.
func (s *Store) withdraw(ctx context.Context, old record) {
	if old.Status == Pending && old.At.Add(-s.window()).After(s.clock.now()) {
		s.link().wakeups.Purge(ctx, jetstream.WithPurgeSubject(s.subject("at", old.Token)))
	}
	if old.Deaths >= asideDeaths {
		s.link().wakeups.Purge(ctx, jetstream.WithPurgeSubject(s.subject("aside", old.Token)))
	}
}

// load reads the record of a key from the leader of the bucket. A leader that has just been replaced may return an
// earlier revision. A compare-and-set then fails.
func (s *Store) load(ctx context.Context, key string) (r record, err error) {
	e, err := s.link().bucket.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound): // also if it was deleted
		return record{}, nil
	case err != nil:
		return record{}, s.permanent(err)
	}
	if r, err = parseRecord(e.Value()); err != nil {
		return record{}, final{fmt.Errorf("revision %d is %w", e.Revision(), err)}
	}
	r.rev, r.stored = e.Revision(), e.Created()
	return r, nil
}

// save writes a record by a compare-and-set on its revision, and returns it with the new one. A record that has
// ended gets a time to live. The server then removes the earlier revisions, because they would come back when the
// last one is removed.
func (s *Store) save(ctx context.Context, key string, r record) (record, error) {
	var ttl time.Duration
	switch {
	case r.Status == void:
		ttl = voidTTL
	case r.ended() && s.cfg.Retain > 0:
		ttl = s.cfg.Retain
	}
	var err error
	switch {
	case r.rev == 0:
		var opts []jetstream.KVCreateOpt
		if ttl > 0 {
			opts = append(opts, jetstream.KeyTTL(ttl))
		}
		r.rev, err = s.link().bucket.Create(ctx, key, r.encode(), opts...)
	case ttl == 0:
		r.rev, err = s.link().bucket.Update(ctx, key, r.encode(), r.rev)
	default: // KeyValue.Update has no option for a time to live
		msg := &nats.Msg{Subject: "$KV." + s.cfg.Name + "." + key, Data: r.encode(), Header: nats.Header{}}
		msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
		var ack *jetstream.PubAck
		ack, err = s.link().js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(r.rev), jetstream.WithMsgTTL(ttl))
		if err == nil {
			r.rev = ack.Sequence
		}
	}
	return r, s.permanent(err)
}

// voidTTL is how long a key stays void. It is longer than any Set waits between its wake-up and its record.
const voidTTL = time.Hour

// permanent marks errors that another attempt would not mend.
func (s *Store) permanent(err error) error {
	if errors.Is(err, jetstream.ErrInvalidKey) || errors.Is(err, nats.ErrMaxPayload) || s.gone(err) {
		return final{err}
	}
	return err
}

// isConflict reports whether a compare-and-set failed because the revision was not the last one.
func isConflict(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
