package deadlines

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A prober stores a schedule three times a lease, as long as the process works. Nobody reads the messages. They have
// three purposes:
//
//   - A worker that only waits notices that the servers store nothing.
//   - A worker notices that schedules do not become messages.
//   - The timer of the server is never set for longer than half a lease. nats-server 2.15 sets it for the earliest
//     schedule, and remembers for which time of the wall clock. After the clock was set forward, or the machine has
//     slept, no schedule is delivered until that timer fires, which otherwise may take days.
type prober struct {
	sent  int       // schedules
	good  time.Time // the last time that nothing was missing, or that this was not known
	full  bool      // a schedule was refused, and none has been stored since
	rearm time.Time // the last time
}

const (
	probeSlots = 4           // schedules that exist at a time
	probeTTL   = time.Minute // at least
	rearmEvery = 30 * time.Second
)

// errStalled is the reason if schedules do not become messages.
var errStalled = reason{what: "no schedules", more: ": the servers do not deliver what is due",
	err: errors.New("their clock may have been set, or their machine may have slept")}

// probe stores a schedule for half a lease from now, and returns an error if that fails, or if earlier ones have not come
// for a while. Then, and when there is room again, it delivers those of deadlines that are due.
func (p *prober) probe(ctx context.Context, s *Store, now time.Time) error {
	came, err := p.came(ctx, s)
	if err != nil {
		p.good = now
		return err
	}
	if p.sent == 0 || came > p.sent-probeSlots { // the next one replaces the one of this number
		p.good = now
	}
	n := p.sent + 1
	msg := &nats.Msg{Subject: s.subject("probe", fmt.Sprint(s.id, "-", n%probeSlots)), Data: []byte(strconv.Itoa(n)), Header: nats.Header{}}
	setSchedule(msg, s.clock.now().Add(s.cfg.Lease/2))
	ttl := max(probeTTL, 2*s.cfg.Lease).Round(time.Second)
	_, err = s.link().js.PublishMsg(ctx, msg, jetstream.WithScheduleTarget(s.subject("probe", s.id)), jetstream.WithScheduleTTL(ttl))
	if err != nil {
		p.full = p.full || noRoom(err) || errors.Is(s.explain(err), ErrNoRoom)
		p.good = now
		return err
	}
	p.sent = n
	stalled := now.Sub(p.good) >= max(s.cfg.Lease, sickAfter)
	if p.full || stalled && now.Sub(p.rearm) >= rearmEvery {
		p.full, p.rearm = false, now
		s.watchers.Go(s.rearm)
	}
	if stalled {
		return errStalled
	}
	return nil
}

// lives remember which processes are alive, as far as this one has asked.
type lives struct {
	mu    sync.Mutex
	known map[string]life // by the name of the process in records
}

type life struct {
	at     time.Time // of the answer, or zero
	alive  bool
	asking bool // for another answer
}

// errAsking says that another goroutine asks whether the process is alive.
var errAsking = errors.New("it is not known yet whether the worker is alive")

// alive reports whether the workers of a process, by its name in records, have stored a schedule lately. A worker that has
// lost its lease because it died did that before, and one that is alive stores three a lease. An error says that it is not
// known. While requests fail, the last answer counts for a lease.
func (s *Store) alive(ctx context.Context, by string) (bool, error) {
	l := &s.lives
	l.mu.Lock()
	was := l.known[by]
	if fresh := time.Since(was.at) < s.cfg.Lease/4; fresh || was.asking {
		l.mu.Unlock()
		if fresh {
			return was.alive, nil
		}
		return false, errAsking
	}
	l.note(by, life{was.at, was.alive, true})
	l.mu.Unlock()

	alive, err := s.askAlive(ctx, by)
	now := life{time.Now(), alive, false}
	if err != nil {
		now = life{was.at, was.alive, false}
		if time.Since(was.at) < s.cfg.Lease {
			err = nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, life := range l.known {
		if !life.asking && time.Since(life.at) >= s.cfg.Lease {
			delete(l.known, other)
		}
	}
	l.note(by, now)
	return now.alive, err
}

// note notes what is known of a process. The lock must be held.
func (l *lives) note(by string, now life) {
	if l.known == nil {
		l.known = make(map[string]life)
	}
	l.known[by] = now
}

// askAlive asks the servers for the schedules of a process.
func (s *Store) askAlive(ctx context.Context, by string) (alive bool, err error) {
	info, err := s.link().wakeups.Info(ctx, jetstream.WithSubjectFilter(s.subject("probe", "*")))
	if err != nil {
		return false, err
	}
	for subject := range info.State.Subjects {
		id, _, ok := strings.Cut(tokenOf(subject), "-")
		if !ok || len(id) < idSuffix || !strings.HasSuffix(by, "-"+id[len(id)-idSuffix:]) {
			continue
		}
		msg, err := s.link().wakeups.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) { // it has become a message meanwhile
			continue
		}
		if err != nil {
			return false, err
		}
		alive = alive || info.TimeStamp.Sub(msg.Time) < s.cfg.Lease/2
	}
	return alive, nil
}

// came returns the number of the last schedule that has become a message.
func (p *prober) came(ctx context.Context, s *Store) (int, error) {
	msg, err := s.link().wakeups.GetLastMsgForSubject(ctx, s.subject("probe", s.id))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(msg.Data))
}

// setSchedule makes a message a schedule. jetstream.WithScheduleAt would drop the fraction of the second.
func setSchedule(msg *nats.Msg, at time.Time) {
	msg.Header.Set(jetstream.ScheduleHeader, "@at "+at.UTC().Format(time.RFC3339Nano))
}

// rearm delivers the schedules that have come and that the server has forgotten. When a schedule comes while the store is
// full, nats-server 2.15 marks it as being delivered, and does not look at it again before a restart or another leader.
func (s *Store) rearm() {
	var n int
	s.persist(s.ctx, func(ctx context.Context) error { // until Close
		info, err := s.link().wakeups.Info(ctx, jetstream.WithSubjectFilter(s.subject("at", "*")))
		if err != nil {
			return err
		}
		for subject := range info.State.Subjects {
			if at, ok := timeOfToken(tokenOf(subject)); ok && s.clock.now().Before(time.Unix(at, 0).Add(forgotten-s.window())) {
				continue
			}
			ctx, cancel := context.WithTimeout(s.ctx, requestLimit)
			rearmed, err := s.rearmOne(ctx, subject)
			cancel()
			if err != nil {
				return err
			}
			if rearmed {
				n++
			}
		}
		return nil
	})
	if n > 0 {
		s.log.Info("deadlines: deadlines that had come, and that the servers had forgotten, are delivered", "deadlines", n)
	}
}

func (s *Store) rearmOne(ctx context.Context, subject string) (bool, error) {
	msg, err := s.link().wakeups.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w, err := parseWakeup(msg.Data)
	if err != nil || s.clock.now().Before(w.At.Add(forgotten-s.window())) {
		return false, nil
	}
	due := s.subject("due", subject[strings.LastIndexByte(subject, '.')+1:])
	if _, err = s.link().js.Publish(ctx, due, msg.Data); err == nil {
		err = s.link().wakeups.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	return err == nil, err
}

// forgotten is how late a schedule is that the server has forgotten. It looks four times a second.
const forgotten = 2 * time.Second
