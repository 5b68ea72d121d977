package deadlines

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// ErrNoRoom is wrapped by the error of a call that the servers have refused because a limit on their storage is
// reached, or a disk is full.
var ErrNoRoom = errors.New("no room")

// A room remembers when the servers last refused to store something for lack of room, or had no leader since then.
type room struct {
	answered atomic.Pointer[time.Time] // a server has said so
	refused  atomic.Pointer[time.Time] // a server has said so, or there was no leader while the store was full
	headless outage                    // the servers have no leader
	silent   outage                    // requests get no answer
}

// An outage is a time in which requests fail in a way. Full servers elect a leader again and again, so it lasts until
// no request has failed so for sickAfter.
type outage struct{ at atomic.Pointer[span] }

type span struct{ since, last time.Time }

// failed notes that a request has failed so, and returns since when that has been so.
func (o *outage) failed() (since time.Time) {
	now := time.Now()
	next := &span{now, now}
	if was := o.at.Load(); was != nil {
		next.since = was.since
	}
	o.at.Store(next)
	return next.since
}

// succeeded notes that a request has succeeded.
func (o *outage) succeeded() {
	if was := o.at.Load(); was != nil && time.Since(was.last) >= sickAfter {
		o.at.CompareAndSwap(was, nil)
	}
}

func (r *room) refuse(answered bool) {
	now := time.Now()
	r.refused.Store(&now)
	if answered {
		r.answered.Store(&now)
	}
}

// hopeless reports whether a request that has failed with an error will not soon succeed, because a server has refused
// it for lack of room, or because full servers have elected no leader for a while.
func (s *Store) hopeless(err error) bool {
	answered := s.room.answered.Load()
	return errors.Is(err, ErrNoRoom) && (noRoom(err) || answered == nil || time.Since(*answered) >= sickAfter)
}

const (
	// fullFor is how long a store counts as full after a request was refused, at least. A worker probes three times a
	// lease.
	fullFor = 10 * time.Second
	// electionLimit is longer than an election takes. A cluster that has no leader for as long, although all its servers
	// are up, has no room. Servers that were away may take rejoinLimit.
	electionLimit = 10 * time.Second
	rejoinLimit   = 30 * time.Second
)

// full reports whether the servers have refused something lately.
func (s *Store) full() bool {
	refused := s.room.refused.Load()
	return refused != nil && time.Since(*refused) < max(s.cfg.Lease, fullFor)
}

// fullWithoutLeader reports whether the servers refused something shortly before they lost their leader, or have since.
// Without a leader they refuse nothing, so a store does not stop to be full by that.
func (s *Store) fullWithoutLeader() bool {
	refused, headless := s.room.refused.Load(), s.room.headless.at.Load()
	return refused != nil && headless != nil && headless.since.Sub(*refused) < max(s.cfg.Lease, fullFor)
}

// A backlog counts the deadlines that have come and that no worker gets: the servers do not store the messages that their
// schedules make, or the consumer is paused.
type backlog struct {
	mu      sync.Mutex
	kind    string  // of the wake-ups that stay where they are: "at", or "due" while the consumer is paused
	due     []int64 // sorted, in seconds since 1970, as tokens have them
	reading bool
	next    time.Time // the next reading
	fails   int       // probes in a row that failed
}

const (
	backlogEvery = 30 * time.Second
	backlogShare = 20 // a reading takes at most one part in so many of the time
	backlogLimit = time.Minute
)

// check notes whether a probe has failed, and counts. After two failures, or at once while the consumer is paused, it reads
// what is scheduled, or waits for the consumer. That changes little while nothing is stored.
func (b *backlog) check(s *Store, failed bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kind, limit, every := "at", 2, backlogEvery
	if _, is := s.danger().(paused); is && !failed {
		kind, limit, every, failed = "due", 1, max(s.cfg.Lease, time.Second), true
	}
	if b.fails++; !failed || kind != b.kind {
		b.fails, b.due, b.next, b.kind = 0, nil, time.Time{}, kind
		if failed {
			b.fails = 1
		}
	}
	if b.fails >= limit && !b.reading && now.After(b.next) {
		b.reading = true
		s.watchers.Go(func() { b.read(s, kind, every) })
	}
	n, _ := slices.BinarySearch(b.due, s.clock.now().Unix())
	if kind == "due" { // some of them may be with the workers
		n = max(0, n-int(s.counts.delivered.Load()))
	}
	s.counts.stuck.Store(int64(n))
}

// read reads the tokens of all wake-ups of a kind.
func (b *backlog) read(s *Store, kind string, every time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, backlogLimit)
	defer cancel()
	began := time.Now()
	var due []int64
	info, err := s.link().wakeups.Info(ctx, jetstream.WithSubjectFilter(s.subject(kind, "*")))
	if err == nil {
		for subject := range info.State.Subjects {
			if at, ok := timeOfToken(tokenOf(subject)); ok {
				due = append(due, at)
			}
		}
		slices.Sort(due)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if b.fails == 0 || kind != b.kind { // a probe has succeeded meanwhile
		return
	}
	if err != nil {
		b.next = time.Now().Add(s.cfg.Lease)
		return
	}
	b.due, b.next = due, time.Now().Add(max(every, backlogShare*time.Since(began)))
}

// newToken returns a token for a wake-up. It ends with the time of the deadline, so that the names of the subjects tell
// which deadlines have come.
func newToken(at time.Time) string { return nuid.Next() + "-" + strconv.FormatInt(at.Unix(), 36) }

// timeOfToken returns the time in a token, in seconds since 1970. Tokens of earlier versions have none.
func timeOfToken(token string) (int64, bool) {
	_, at, ok := strings.Cut(token, "-")
	seconds, err := strconv.ParseInt(at, 36, 64)
	return seconds, ok && err == nil
}
