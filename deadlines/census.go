package deadlines

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Peers are the servers that keep the bucket. A server counts as up only if it has shown that it is.
type peers struct {
	names []string
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

// allUp reports whether all servers were up during an outage, for longer than an election takes, and still were when that
// was found.
func (p *peers) allUp(since time.Time) bool {
	limit := electionLimit
	if p.whole.After(since) {
		since, limit = p.whole, rejoinLimit
	}
	return !p.whole.IsZero() && p.at.Sub(since) >= limit
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
		s.note(names, len(names))
	} else if was := s.peers.Load(); was == nil || len(was.names) != len(names) {
		s.peers.Store(&peers{names: names})
	}
}

// note notes how many of the servers are up now.
func (s *Store) note(names []string, up int) {
	was := s.serversUp()
	p := &peers{names: names, up: up, at: time.Now()}
	if up == len(names) {
		if p.whole = p.at; was != nil && !was.whole.IsZero() {
			p.whole = was.whole
		}
	}
	s.peers.Store(p)
}

const (
	// A server answers this one also when it has no leader, or when its JetStream is off.
	pingSubject = "$SYS.REQ.ACCOUNT.PING.STATZ"
	pingLimit   = time.Second
)

// count asks the servers whether they are up. Without an answer, as when the permission is missing, it notes nothing.
func (s *Store) count(ctx context.Context) {
	p, nc := s.peers.Load(), s.link().nc
	if p == nil || !nc.IsConnected() || s.denials.ping.Load() == nc {
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
	missing := make(map[string]bool)
	for _, name := range p.names {
		missing[name] = true
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	answers := 0
	for len(missing) > 0 {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			break
		}
		var answer struct{ Server struct{ Name string } }
		if json.Unmarshal(msg.Data, &answer) == nil && answer.Server.Name != "" {
			answers++
			delete(missing, answer.Server.Name)
		}
	}
	if answers > 0 {
		s.note(p.names, len(p.names)-len(missing))
	}
}
