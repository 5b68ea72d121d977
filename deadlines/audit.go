package deadlines

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// An auditor begins an audit now and then. An audit reads the whole store, so only one worker of all processes does it at
// a time: the one that stores a message that no other worker has stored before it expires.
type auditor struct {
	mu       sync.Mutex
	next     time.Time // when this process asks whether it is its turn
	made     int64     // the number of the stream of wake-ups: see Store.madeAgain
	auditing bool
	working  bool // at the last check
}

// A turn is the message of the process that audits, or has audited last. The other processes have its count.
type turn struct {
	By       string `json:"by"`
	Stranded int    `json:"stranded"`
}

const (
	auditEvery = 10 * time.Minute
	auditShare = 20              // an audit takes at most one part in so many of the time
	auditAgain = time.Minute     // until a process asks again, on average
	auditRetry = 5 * time.Second // after an audit that failed; it doubles, up to auditEvery, and is no shorter than the audit was

	turnTTL   = time.Minute // of the turn of a process that has died in an audit
	turnRenew = 10 * time.Second
	readLimit = time.Minute // for the answer to one request for all wake-ups
)

// check begins an audit if it is time for one. A new stream of wake-ups needs one soon. A Set whose wake-up went to the
// stream before it has then ended.
func (a *auditor) check(s *Store, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if made := s.madeAgain.Load(); made != a.made {
		a.made, a.next = made, now.Add(requestLimit)
	}
	working := s.working.Load() > 0
	if a.auditing || !working && !a.working {
		return
	}
	if a.working = working; !working {
		s.counts.stranded.Store(0) // the processes that work know
		return
	}
	if now.Before(a.next) {
		return
	}
	a.auditing = true
	made := a.made
	s.watchers.Go(func() {
		again := s.takeTurn()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.auditing = false
		if a.made == made { // or else check has said when
			a.next = time.Now().Add(again)
		}
	})
}

// takeTurn audits if it is the turn of this process. It returns when to ask again.
func (s *Store) takeTurn() (again time.Duration) {
	again = auditAgain/2 + rand.N(auditAgain)
	seq, err := s.storeTurn(0, turnTTL)
	if isConflict(err) {
		switch t, _, err := s.lastTurn(); {
		case err != nil: // what is known counts, until there is an answer
		case t.By != s.id:
			s.counts.stranded.Store(int64(t.Stranded))
		case s.failedAudits > 0:
			return auditRetry // the server has not removed it yet
		}
		return again
	}
	began, pause := time.Now(), auditEvery
	if err == nil {
		seq, err = s.auditInTurn(seq)
	}
	switch {
	case s.ctx.Err() != nil:
		return again
	case err == nil:
		s.failedAudits = 0
		pause = max(auditEvery, auditShare*time.Since(began)).Round(time.Second)
	default:
		if auditRetry<<s.failedAudits < auditEvery {
			pause = auditRetry << s.failedAudits
			s.failedAudits++
		}
		pause = pauseAfter(pause, time.Since(began))
		again = pause + time.Second
		s.log.Error("deadlines: the search for deadlines without wake-ups has failed, and is tried again",
			"left", s.counts.stranded.Load(), "in", pause, "because", s.explain(err))
	}
	s.storeTurn(seq, pause) // if that fails, the next one is after turnTTL
	return again
}

// pauseAfter returns the pause after an audit that failed. An audit reads all again, so a long one is not repeated at once.
func pauseAfter(pause, took time.Duration) time.Duration {
	return min(max(pause, took.Round(time.Second)), auditEvery)
}

// auditInTurn audits and prolongs the turn meanwhile. It returns the number of the last message of the turn.
func (s *Store) auditInTurn(seq uint64) (last uint64, err error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		tick := time.NewTicker(turnRenew)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			next, err := s.storeTurn(seq, turnTTL)
			if err == nil {
				seq = next
			} else if isConflict(err) {
				if t, last, err := s.lastTurn(); err == nil && t.By == s.id { // the answer to the last one was lost
					seq = last
				} else if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) {
					cancel(errTurn)
				}
			}
		}
	})
	err = s.audit(ctx)
	cancel(nil)
	renewing.Wait()
	return seq, err
}

var errTurn = errors.New("another process does it now, or the stream of wake-ups was made again")

// storeTurn stores the turn of this process, if the last message of the turn is the one with a number, or if there is
// none and the number is 0.
func (s *Store) storeTurn(last uint64, ttl time.Duration) (seq uint64, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, requestLimit)
	defer cancel()
	data, _ := json.Marshal(turn{By: s.id, Stranded: int(s.counts.stranded.Load())})
	ack, err := s.link().js.Publish(ctx, s.subject("probe", "audit"), data, jetstream.WithMsgTTL(ttl), jetstream.WithExpectLastSequencePerSubject(last))
	if err != nil {
		return last, err
	}
	return ack.Sequence, nil
}

// lastTurn returns the last turn of a process, and the number of its message. An earlier version has stored no turn in it.
func (s *Store) lastTurn() (t turn, seq uint64, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, requestLimit)
	defer cancel()
	msg, err := s.link().wakeups.GetLastMsgForSubject(ctx, s.subject("probe", "audit"))
	if err != nil {
		return t, 0, err
	}
	json.Unmarshal(msg.Data, &t)
	return t, msg.Sequence, nil
}

// audit looks for deadlines that are pending without a wake-up, so that no worker would get them, and sets them again.
// If it cannot read all records, it sets those again that it has found.
func (s *Store) audit(ctx context.Context) error {
	looked := time.Now()
	tokens, began, err := s.tokens(ctx)
	if err != nil {
		return err
	}
	r := &Report{keys: make(map[string]record), stranded: make(map[string]record), audit: true}
	_, unread := s.each(ctx, func(e jetstream.KeyValueEntry) bool {
		// A record that is stored later has its wake-up, but tokens may not.
		last, err := parseRecord(e.Value())
		if err != nil {
			s.flood.report("record", slog.LevelError, "deadlines: a record cannot be read or written", "key", e.Key(), "err", err)
		} else if last.open() && !tokens[last.Token] && e.Created().Before(began) {
			r.stranded[e.Key()] = record{Status: last.Status, At: last.At, Token: last.Token, rev: e.Revision()}
		}
		return true
	})
	if len(r.stranded) > 0 {
		// A leader that had just been replaced may have answered, or a page of its answer may have missed some.
		select {
		case <-time.After(time.Until(looked.Add(requestLimit))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if tokens, _, err = s.tokens(ctx); err != nil {
			return err
		}
		for key, last := range r.stranded {
			if tokens[last.Token] {
				delete(r.stranded, key)
			}
		}
	}
	found := int64(len(r.stranded))
	if unread != nil { // what was known before counts too
		found = max(found, s.counts.stranded.Load())
	}
	s.counts.stranded.Store(found)
	if len(r.stranded) == 0 {
		return unread
	}
	s.log.Error("deadlines: deadlines have lost their wake-ups", "deadlines", len(r.stranded), "first", r.earliest()[0])
	repaired := 0
	var mu sync.Mutex
	err = s.repair(ctx, r, func(changed bool) {
		s.counts.stranded.Add(-1)
		if changed {
			s.counts.repaired.Add(1)
			mu.Lock()
			repaired++
			mu.Unlock()
		}
	})
	if repaired > 0 {
		s.log.Info("deadlines: deadlines that had lost their wake-ups are set again", "deadlines", repaired)
	}
	return errors.Join(err, unread)
}

// tokens returns the tokens of all wake-ups, and the time of the server when it began to read them.
func (s *Store) tokens(ctx context.Context) (tokens map[string]bool, at time.Time, err error) {
	tokens = make(map[string]bool)
	for _, kind := range []string{"at", "due", "aside"} { // it goes from at to due, and to aside
		limited, cancel := context.WithTimeout(ctx, readLimit)
		info, err := s.link().wakeups.Info(limited, jetstream.WithSubjectFilter(s.subject(kind, "*")))
		cancel()
		if err != nil {
			return nil, at, err
		}
		if at.IsZero() {
			at = info.TimeStamp
		}
		for subject := range info.State.Subjects {
			tokens[tokenOf(subject)] = true
		}
	}
	return tokens, at, nil
}
