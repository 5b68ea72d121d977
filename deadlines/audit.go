package deadlines

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// An auditor begins an audit now and then. An audit reads the whole store, so only one worker of all processes does it at
// a time: the one that stores a message that no other worker has stored before it expires.
type auditor struct {
	next time.Time // when this process asks whether it is its turn
	made int64     // when the stream of wake-ups was made
}

const (
	auditEvery = 10 * time.Minute
	auditShare = 20 // an audit takes at most one part in so many of the time
	auditLimit = time.Hour
	auditAgain = time.Minute // until a process asks again, on average
)

// check begins an audit if it is time for one. A new stream of wake-ups needs one soon. A Set whose wake-up went to the
// stream before it has then ended.
func (a *auditor) check(s *Store, now time.Time) {
	if made := s.made.Load(); made != a.made {
		a.made, a.next = made, now.Add(requestLimit)
	}
	if s.working.Load() == 0 || now.Before(a.next) {
		return
	}
	a.next = now.Add(auditAgain/2 + rand.N(auditAgain))
	s.watchers.Go(s.takeTurn)
}

// takeTurn audits if it is the turn of this process.
func (s *Store) takeTurn() {
	ctx, cancel := context.WithTimeout(s.ctx, auditLimit)
	defer cancel()
	turn := s.subject("probe", "audit")
	_, err := s.link().js.Publish(ctx, turn, nil, jetstream.WithMsgTTL(auditLimit), jetstream.WithExpectLastSequencePerSubject(0))
	if err == nil {
		began := time.Now()
		err = s.audit(ctx)
		next := max(auditEvery, auditShare*time.Since(began)).Round(time.Second)
		s.link().js.Publish(s.ctx, turn, nil, jetstream.WithMsgTTL(next)) // if that fails, the next one is after auditLimit
	} else if isConflict(err) {
		s.counts.stranded.Store(0) // another process knows
		return
	}
	s.health.report(findStranded, s.explain(err))
}

// audit looks for deadlines that are pending without a wake-up, so that no worker would get them, and sets them again.
func (s *Store) audit(ctx context.Context) error {
	tokens, began, err := s.tokens(ctx)
	if err != nil {
		return err
	}
	r := &Report{keys: make(map[string]record), stranded: make(map[string]record)}
	_, err = s.each(ctx, func(e jetstream.KeyValueEntry) bool {
		// A record that is stored later has its wake-up, but tokens may not.
		if last, err := parseRecord(e.Value()); err == nil && last.open() && !tokens[last.Token] && e.Created().Before(began) {
			r.stranded[e.Key()] = record{Status: last.Status, At: last.At, Token: last.Token}
		}
		return true
	})
	if err == nil {
		err = r.confirm(ctx, s)
	}
	s.counts.stranded.Store(int64(len(r.stranded)))
	if err != nil || len(r.stranded) == 0 {
		return err
	}
	first := slices.MinFunc(slices.Collect(maps.Keys(r.stranded)), func(a, b string) int {
		return r.stranded[a].At.Compare(r.stranded[b].At)
	})
	s.log.Error("deadlines: deadlines have lost their wake-ups", "deadlines", len(r.stranded), "first", first)
	repaired, err := s.Repair(ctx, r)
	s.counts.stranded.Add(-int64(repaired))
	s.counts.repaired.Add(uint64(repaired))
	if repaired > 0 {
		s.log.Info("deadlines: deadlines that had lost their wake-ups are set again", "deadlines", repaired)
	}
	return err
}

// tokens returns the tokens of all wake-ups, and the time of the server when it began to read them.
func (s *Store) tokens(ctx context.Context) (tokens map[string]bool, at time.Time, err error) {
	tokens = make(map[string]bool)
	for _, kind := range []string{"at", "due", "aside"} { // it goes from at to due, and to aside
		info, err := s.link().wakeups.Info(ctx, jetstream.WithSubjectFilter(s.subject(kind, "*")))
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
