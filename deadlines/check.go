package deadlines

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// A Report is what Check has found in a store.
type Report struct {
	Replicas                            int // of the bucket
	Keys, Revisions                     int
	Pending, Running, Handled, Canceled int
	Wakeups                             int           // in the stream, also of deadlines that were canceled or moved
	Aside                               int           // wake-ups that are set aside; each is a fault
	Overdue                             int           // deadlines that have come and are Pending or Running
	MostOverdue                         time.Duration // of them, by the clock of the server
	Faults                              int
	FirstFaults                         []string // at most 20

	keys     map[string]record
	stranded map[string]record // Pending or Running without a wake-up
	audit    bool              // it is of an audit, which repairs at once
	server   time.Time
}

// String returns the report as deadlinecheck prints it, in four lines and one for each of FirstFaults.
func (r Report) String() string {
	b := fmt.Appendf(nil, "keys %d: pending %d, running %d, handled %d, canceled %d\n", r.Keys, r.Pending, r.Running, r.Handled, r.Canceled)
	b = fmt.Appendf(b, "revisions %d, wake-ups %d, set aside %d\n", r.Revisions, r.Wakeups, r.Aside)
	b = fmt.Appendf(b, "overdue %d, by up to %v\n", r.Overdue, r.MostOverdue.Round(time.Millisecond))
	b = fmt.Appendf(b, "faults %d", r.Faults)
	for _, f := range r.FirstFaults {
		b = append(append(b, '\n'), f...)
	}
	return string(b)
}

const (
	silenceLimit = 5 * time.Second // after which the reading begins again, because a server that led it is gone
	behindLimit  = 5 * time.Second // for a replica to catch up
)

// Check reads all revisions of all records of a store, and all wake-ups. The store may be in use. A fault is a
// deadline that was claimed or handled early by the clock of the server, was handled without a claim or changed
// after it had ended, or is pending without a wake-up, so that no worker would get it. So is a wake-up that is set
// aside, because no worker can handle it or too many have died in its handler.
//
// The server removes revisions after Config.Retain, and a reading finds what is there. The last revision of each key
// is kept in memory meanwhile. Check tries until ctx is done, because servers that elect a leader lose requests. So it also
// does while it gets less than the store holds, as for some seconds after a restoration: see ErrIncomplete.
func Check(ctx context.Context, nc *nats.Conn, name string) (*Report, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("deadlines: check: %w", err)
	}
	var last error
	var missing time.Time // since when the stream of wake-ups is gone, or zero
	for {
		r := &Report{keys: make(map[string]record), stranded: make(map[string]record)}
		err = r.read(ctx, js, name, !missing.IsZero() && time.Since(missing) >= behindLimit)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, errNoWakeups) {
			missing = time.Time{}
		} else if missing.IsZero() {
			missing = time.Now()
		}
		if last == nil || ctx.Err() == nil { // after that, it would only say that time is up
			last = err
		}
		if ctx.Err() != nil || errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, nats.ErrConnectionClosed) {
			return nil, fmt.Errorf("deadlines: check %q: %w", name, last)
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// ErrIncomplete is wrapped by the error of Check if it got less than the store holds, by the count of the servers.
var ErrIncomplete = errors.New("the servers hold more than they send")

var errNoWakeups = errors.New("the stream of wake-ups is gone")

var errSilent = fmt.Errorf("the servers have sent nothing for %v", silenceLimit)

// read reads the store. If the stream of wake-ups is gone for good, all that is pending is stranded.
func (r *Report) read(ctx context.Context, js jetstream.JetStream, name string, gone bool) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silenceLimit, func() { cancel(errSilent) })
	defer watchdog.Stop()
	defer func() {
		if err != nil && context.Cause(ctx) == errSilent {
			err = errSilent
		}
	}()
	bucket, err := js.KeyValue(ctx, name)
	if err != nil {
		return err
	}
	status, err := bucket.Status(ctx)
	if err != nil {
		return err
	}
	r.Replicas = status.(*jetstream.KeyValueBucketStatus).StreamInfo().Config.Replicas
	records, err := js.Stream(ctx, "KV_"+name)
	if err != nil {
		return err
	}
	before := records.CachedInfo().State
	read := 0 // of the messages that were there before
	watcher, err := bucket.WatchAll(ctx, jetstream.IncludeHistory())
	if err != nil {
		return err
	}
	defer stopWatcher(watcher)
	for reading := true; reading; {
		select {
		case e, ok := <-watcher.Updates():
			if !ok {
				return errors.Join(errors.New("the records could not be read to the end"), ctx.Err())
			}
			if e == nil {
				reading = false
				break
			}
			watchdog.Reset(silenceLimit)
			if e.Revision() <= before.LastSeq {
				read++
			}
			if e.Operation() == jetstream.KeyValuePut {
				r.add(e)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	watchdog.Stop()
	info, err := records.Info(ctx)
	if err != nil {
		return err
	}
	// Messages have come and gone meanwhile. As many as this were there all the time.
	if held := int(info.State.Msgs) - int(info.State.LastSeq-before.LastSeq); read < held {
		return fmt.Errorf("%w: %d of %d revisions", ErrIncomplete, read, held)
	}
	wakeups, err := js.Stream(ctx, name+"-wakeups")
	if errors.Is(err, jetstream.ErrStreamNotFound) && gone {
		r.server = info.TimeStamp
		r.findStranded(nil)
		r.conclude()
		return nil
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return errNoWakeups
	}
	if err != nil {
		return err
	}
	s := &Store{cfg: Config{Name: name}}
	s.linked.Store(&link{nc: js.Conn(), js: js, bucket: bucket, wakeups: wakeups})
	tokens, now, err := s.tokens(ctx)
	if err != nil {
		return err
	}
	r.server = now
	if err := r.readAside(ctx, s); err != nil {
		return err
	}
	r.Wakeups = len(tokens) - r.Aside
	r.findStranded(tokens)
	if err := r.confirm(ctx, s); err != nil {
		return err
	}
	r.conclude()
	return nil
}

// add checks a revision against the one before. Revisions in between may have been removed.
func (r *Report) add(e jetstream.KeyValueEntry) {
	r.Revisions++
	now, err := parseRecord(e.Value())
	if err != nil {
		r.faultOf(e.Key(), e.Revision(), "%v", err)
		return
	}
	now.rev, now.stored = e.Revision(), e.Created()
	was, known := r.keys[e.Key()]
	r.keys[e.Key()] = now
	fault := func(format string, args ...any) { r.faultOf(e.Key(), now.rev, format, args...) }
	if now.Status == Running || now.Status == Handled {
		if early := now.At.Sub(now.stored); early > 0 {
			fault("%s %v early", now.Status, early)
		}
		if now.Attempts == 0 {
			fault("%s without a call of the handler", now.Status)
		}
	}
	if !known || was.Token != now.Token { // a Set or Move has made a new token
		return
	}
	switch {
	case now.Op == was.Op && now.rev <= was.rev:
		fault("revision %d came before it", was.rev)
	case was.ended() && now.Status != was.Status:
		fault("%s after it was %s", now.Status, was.Status)
	case now.Status == Canceled && was.Status == Running:
		fault("canceled while a handler was running")
	case !now.At.Equal(was.At):
		fault("its time has changed by %v without a Set", now.At.Sub(was.At))
	case now.Attempts < was.Attempts:
		fault("%d attempts after %d", now.Attempts, was.Attempts)
	}
}

// confirm reads stranded records, and then the wake-ups, again for a while, because the store may have changed between
// the two readings, or a replica may be behind.
func (r *Report) confirm(ctx context.Context, s *Store) error {
	for end := time.Now().Add(behindLimit); len(r.stranded) > 0 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var mu sync.Mutex
		now := make(map[string]record)
		err := parallel(ctx, slices.Collect(maps.Keys(r.stranded)), func(ctx context.Context, key string) error {
			last, err := s.load(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			now[key] = last
			return err
		})
		if err != nil {
			return err
		}
		tokens, _, err := s.tokens(ctx)
		if err != nil {
			return err
		}
		for key, last := range now {
			r.keys[key] = last
			last.Payload = nil // it may be large, and Repair reads it again
			r.stranded[key] = last
			if last.rev == 0 || last.ended() || tokens[last.Token] {
				delete(r.stranded, key)
			}
		}
	}
	return nil
}

// findStranded looks for wake-ups that are missing.
func (r *Report) findStranded(tokens map[string]bool) {
	for key, last := range r.keys {
		if last.open() && !tokens[last.Token] {
			r.stranded[key] = last
		}
	}
}

// conclude counts the last records, and the faults of stranded deadlines.
func (r *Report) conclude() {
	for _, last := range r.keys {
		switch last.Status {
		case Pending:
			r.Pending++
		case Running:
			r.Running++
		case Handled:
			r.Handled++
		case Canceled:
			r.Canceled++
		default: // void, or removed meanwhile
			continue
		}
		r.Keys++
		if late := r.server.Sub(last.At); late > 0 && !last.ended() {
			r.Overdue++
			r.MostOverdue = max(r.MostOverdue, late)
		}
	}
	for key, last := range r.stranded {
		r.faultOf(key, last.rev, "%s, but its wake-up %s is not in the stream", last.Status, last.Token)
	}
}

// readAside reports the wake-ups that workers have set aside.
func (r *Report) readAside(ctx context.Context, s *Store) error {
	info, err := s.link().wakeups.Info(ctx, jetstream.WithSubjectFilter(s.subject("aside", "*")))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		msg, err := s.link().wakeups.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		r.Aside++
		r.fault("the wake-up %s is set aside: %s", tokenOf(subject), msg.Header.Get(reasonHeader))
	}
	return nil
}

// Repair sets each deadline again that is without a wake-up, as after the restoration of a backup that was taken while
// the store was in use. It begins with the earliest, and sets up to 64 at a time. It returns how many it has set, also
// with an error. Workers do that too, from time to time. A deadline that has changed since the Check is left alone. The
// handler of a Running one is called again.
func (s *Store) Repair(ctx context.Context, r *Report) (repaired int, err error) {
	var n atomic.Int64
	err = s.repair(ctx, r, func(changed bool) {
		if changed {
			n.Add(1)
		}
	})
	return int(n.Load()), err
}

// repair calls f for each deadline that is not stranded any more. A deadline that cannot be set holds up no other one, and
// is reported at the end. If as many in a row fail as are set at a time, repair ends, because the next ones would fail too.
func (s *Store) repair(ctx context.Context, r *Report, f func(changed bool)) error {
	var mu sync.Mutex
	var failed, inRow int
	var first error
	parallel(ctx, r.earliest(), func(ctx context.Context, key string) error {
		changed, err := s.repairOne(ctx, key, r.stranded[key], r.audit)
		if err == nil {
			f(changed)
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			inRow = 0
			return nil
		}
		if failed++; first == nil {
			first = err
		}
		if inRow++; inRow < parallelism {
			return nil
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failed > 0:
		return fmt.Errorf("%d of %d deadlines could not be set again, the first one because %w", failed, len(r.stranded), first)
	}
	return nil
}

// repairOne sets a deadline again. It stores only the wake-up if the record has not changed and the deadline is not near.
// The wake-up then replaces the one of the same subject, if that is there after all, or if another process does the same.
// A near one may be with a worker, so its deadline gets another token.
//
// An audit does not read such a record again. If it has changed, its token has too, and a worker drops the wake-up.
func (s *Store) repairOne(ctx context.Context, key string, stranded record, audit bool) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	far := func() bool {
		return stranded.Status == Pending && stranded.At.After(s.clock.now().Add(s.window()+repairMargin))
	}
	if far() {
		id := nuid.Next() // with the ID of Set, a server might drop it
		err = s.try(ctx, opRepair, key, func(ctx context.Context) error {
			if danger := s.danger(); errors.Is(danger, ErrMismatch) {
				return final{danger}
			}
			if changed = audit; !audit {
				now, err := s.load(ctx, key)
				if changed = now.rev == stranded.rev; err != nil || !changed {
					return err
				}
			}
			if !far() { // requests have failed for long
				changed = false
				return nil
			}
			return s.wakeAs(ctx, id, stranded.Token, wakeup{Key: key, At: stranded.At, Prior: stranded.rev - 1})
		})
		if changed || err != nil {
			return err == nil, err
		}
	}
	return s.change(ctx, opRepair, key, stranded.At, func(old record) (record, bool) {
		ok := old.Token == stranded.Token && !old.ended()
		old.Status = Pending
		return old, ok
	})
}

// repairMargin is longer than a request takes to reach the servers.
const repairMargin = 30 * time.Second

// earliest returns the keys of the stranded deadlines, the earliest first.
func (r *Report) earliest() []string {
	return slices.SortedFunc(maps.Keys(r.stranded), func(a, b string) int { return r.stranded[a].At.Compare(r.stranded[b].At) })
}

// parallelism is how many requests are made at a time for a repair. More are hardly faster.
const parallelism = 64

// parallel calls f for the keys, in their order and many at a time, until one call fails.
func parallel(ctx context.Context, keys []string, f func(ctx context.Context, key string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var calls sync.WaitGroup
	for range min(parallelism, len(keys)) {
		calls.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(keys) {
					return
				}
				if err := f(ctx, keys[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	calls.Wait()
	return context.Cause(ctx)
}

// faultOf adds a fault of a record.
func (r *Report) faultOf(key string, revision uint64, format string, args ...any) {
	r.fault("%s, revision %d: %s", quote(key), revision, fmt.Sprintf(format, args...))
}

func (r *Report) fault(format string, args ...any) {
	const shown = 20
	if r.Faults++; r.Faults <= shown {
		r.FirstFaults = append(r.FirstFaults, fmt.Sprintf(format, args...))
	}
}
