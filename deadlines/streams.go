package deadlines

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ensureWakeups finds the stream of wake-ups and its consumer, or makes them. To make them again is safe as long as the
// bucket is there: it knows which deadlines need a wake-up, and an audit sets those again. Any number of processes may do
// it at once: one of them makes the stream, and the others find it.
func (s *Store) ensureWakeups(ctx context.Context, l *link) (jetstream.Consumer, error) {
	var err error
	l.wakeups, err = l.js.Stream(ctx, s.wakeupsName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		l.wakeups, err = s.makeWakeups(ctx, l)
	}
	if err != nil {
		return nil, err
	}
	if c := l.wakeups.CachedInfo().Config; !slices.Contains(c.Subjects, s.subject("aside", "*")) { // an earlier version made it
		c.Subjects = s.subjects()
		if l.wakeups, err = l.js.UpdateStream(ctx, c); err != nil {
			return nil, err
		}
	}
	consumer, err := l.wakeups.Consumer(ctx, consumerName)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		consumer, err = s.makeConsumer(ctx, l)
	}
	return consumer, err
}

func (s *Store) bucketName() string  { return "KV_" + s.cfg.Name }
func (s *Store) wakeupsName() string { return s.cfg.Name + "-wakeups" }

// An origin tells a stream from one that was made again under its name.
type origin struct {
	id   string // from its metadata; a stream that an earlier version has made has none
	made int64  // when it was made; servers before 2.15 change that if two processes make it at once
}

func originOf(info *jetstream.StreamInfo) origin {
	return origin{info.Config.Metadata[idKey], info.Created.UnixNano()}
}

func (o origin) same(other origin) bool {
	return o.made == other.made || o.id != "" && o.id == other.id
}

// look asks the leaders of the two streams for the time, the backlog and the settings. The leader of the bucket stamps
// the records, so its clock counts. If the stream of wake-ups is gone, look makes it again.
func (s *Store) look(ctx context.Context) error {
	l := s.link()
	sent := time.Now()
	records, err := l.records.Info(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return s.lost(err, sent)
	}
	if err != nil {
		return err
	}
	s.follow(records, !s.lostSince.IsZero())
	s.lostSince = time.Time{}
	s.clock.set(records.TimeStamp, sent, time.Now())
	s.see(records)
	wakeups, err := l.wakeups.Info(ctx, jetstream.WithSubjectFilter(s.subject("aside", "*")))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return s.remake()
	}
	if err != nil {
		return err
	}
	consumer, err := l.wakeups.Consumer(ctx, consumerName)
	if errors.Is(err, jetstream.ErrConsumerNotFound) { // workers that are halted do not make it again
		s.log.Warn("deadlines: the consumer is gone, and is made again")
		consumer, err = s.makeConsumer(ctx, l)
	}
	if err != nil {
		return err
	}
	if was, now := s.wakeups, originOf(wakeups); was.made != now.made {
		s.wakeups = now
		s.madeAgain.Add(1) // so an audit comes soon, also after a backup was restored
		if was.made != 0 && !was.same(now) {
			s.log.Error("deadlines: the stream of wake-ups was gone, and has been made again; the workers set again what is pending",
				"stream", s.wakeupsName())
		}
	}
	s.counts.aside.Store(int64(len(wakeups.State.Subjects)))
	s.counts.undelivered.Store(int64(consumer.CachedInfo().NumPending))
	s.counts.delivered.Store(int64(consumer.CachedInfo().NumAckPending))
	s.judge(s.verify(records, wakeups, consumer.CachedInfo()))
	return nil
}

// follow notes what is known of the bucket, and whether an earlier state of it was restored. Its ID comes back then. Most
// servers give it a new time of creation. Some single servers do not, but it was gone before. A leader that has been
// replaced may also answer with an earlier revision.
func (s *Store) follow(records *jetstream.StreamInfo, gone bool) {
	now := originOf(records)
	if !now.same(s.bucket) {
		return
	}
	if (gone || now.made > s.bucket.made) && records.State.LastSeq < s.bucketLast {
		s.restored = true // also when more has been done since
	}
	s.bucket.made, s.bucketLast = max(s.bucket.made, now.made), max(s.bucketLast, records.State.LastSeq)
}

// judge notes why the store is unsafe, or nil, and logs a change.
func (s *Store) judge(danger error) {
	was := s.danger()
	s.unsafe.Store(&danger)
	switch {
	case danger != nil && (was == nil || was.Error() != danger.Error()):
		s.log.Error("deadlines: the store is not safe", "because", danger)
	case danger == nil && was != nil:
		s.log.Info("deadlines: the store is safe again")
	}
}

// danger returns why the store is unsafe, as look has found, or nil: a reason if a stream is gone, or else a mismatch or
// a paused.
func (s *Store) danger() error {
	if danger := s.unsafe.Load(); danger != nil {
		return *danger
	}
	return nil
}

// lost explains that the bucket is gone, unless servers that have just started may not know it yet.
func (s *Store) lost(err error, now time.Time) error {
	if s.lostSince.IsZero() {
		s.lostSince = now
	}
	if now.Sub(s.lostSince) < sickAfter {
		return err
	}
	r := reason{what: "no stream", more: ": " + s.bucketName() + " is gone with all deadlines; restore it from a backup", err: err}
	s.judge(r)
	return r
}

// remake makes the stream of wake-ups again, with its consumer. Servers that are busy may need long for that.
func (s *Store) remake() error {
	ctx, cancel := context.WithTimeout(s.ctx, startLimit)
	defer cancel()
	l := *s.link() // calls use the present one meanwhile
	if _, err := s.ensureWakeups(ctx, &l); err != nil {
		r := reason{what: "no stream", more: ": " + s.wakeupsName() + " is gone, and cannot be made again", err: err}
		s.judge(r)
		return r
	}
	return nil
}
