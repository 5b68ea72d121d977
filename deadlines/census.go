package deadlines

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Peers are the servers that keep the bucket. A server counts as up only if it has shown that it is.
type peers struct {
	names []string
	seen  map[string]time.Time // when each has answered last
	up    int
	at    time.Time // when up was found, or zero
	whole time.Time // since when all have been up, or zero
}

// knownFor is how long it is known which servers are up, at least. A round of the watcher takes less.
const knownFor = 10 * time.Second

// serversUp returns what is known of the servers that keep the bucket, or nil.
func (s *Store) serversUp() *peers {
	if p := s.peers.Load(); p != nil && time.Since(p.at) < max(s.cfg.Lease, knownFor) {
		return p
	}
	return nil
}

// allUp reports whether an outage lasts for longer than an election takes although all servers are up. That they are up
// was found in the outage, because an earlier answer says nothing.
func (p *peers) allUp(since time.Time) bool {
	limit := electionLimit
	if p.whole.After(since) {
		since, limit = p.whole, rejoinLimit
	}
	return !p.whole.IsZero() && time.Since(since) >= limit && p.at.Sub(since) >= limit/2
}

// see notes which servers keep the bucket, and that all of them are up if the leader has heard from all. One that it has
// not heard from may be up nevertheless, with a full disk. Only Open and then the watcher call see and count.
func (s *Store) see(info *jetstream.StreamInfo) {
	var names []string
	whole := true
	c := info.Cluster
	switch {
	case c == nil: // a single server
		names = []string{s.link().nc.ConnectedServerName()}
	case c.Leader != "": // it is not among the replicas
		names = []string{c.Leader}
	default:
		whole = false
	}
	if c != nil {
		for _, r := range c.Replicas {
			names = append(names, r.Name)
			whole = whole && !r.Offline && 0 < r.Active && r.Active < sickAfter
		}
	}
	if whole {
		s.note(names, names)
	} else if was := s.peers.Load(); was == nil || c.Leader != "" && !sameNames(was.names, names) { // such as one in place of another
		s.peers.Store(&peers{names: names})
	}
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// note notes which servers are up now. One that a busy machine has held up is not down at once.
func (s *Store) note(names, up []string) {
	now, was := time.Now(), s.serversUp()
	p := &peers{names: names, at: now, seen: make(map[string]time.Time)}
	for _, name := range names {
		if was != nil {
			p.seen[name] = was.seen[name]
		}
		if slices.Contains(up, name) {
			p.seen[name] = now
		}
		if now.Sub(p.seen[name]) < sickAfter {
			p.up++
		}
	}
	if p.up == len(names) {
		if p.whole = now; was != nil && !was.whole.IsZero() && sameNames(was.names, names) {
			p.whole = was.whole
		}
	}
	s.peers.Store(p)
}

const (
	// A server answers this one also when it has no leader, or when its JetStream is off.
	pingSubject = "$SYS.REQ.ACCOUNT.PING.STATZ"
	pingLimit   = 250 * time.Millisecond // a server that has no time to answer is asked again in the next round
	deniedFor   = time.Minute            // until count tries again after a denial, because the permission may have been given
)

// count asks the servers whether they are up. Without an answer, as when the permission is missing, it notes nothing.
func (s *Store) count(ctx context.Context) {
	p, nc := s.peers.Load(), s.link().nc
	if denied := s.denials.ping.Load(); p == nil || !nc.IsConnected() || denied != nil && denied.nc == nc && time.Since(denied.at) < deniedFor {
		return
	}
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest(pingSubject, sub.Subject, []byte(`{"include_unused":true}`)); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	var up []string
	for len(up) < len(p.names) {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			break
		}
		var answer struct{ Server struct{ Name string } }
		if json.Unmarshal(msg.Data, &answer) == nil && slices.Contains(p.names, answer.Server.Name) {
			up = append(up, answer.Server.Name)
		}
	}
	if len(up) > 0 {
		s.denials.ping.Store(nil)
		s.note(p.names, up)
	}
}
