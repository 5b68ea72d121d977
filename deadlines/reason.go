package deadlines

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A reason is an error of a request, with what an operator can look for.
type reason struct {
	what, more string
	err        error
	leaderless bool // no server leads the stream
}

func (r reason) Error() string {
	text := r.what + r.more
	if errors.Is(r.err, context.DeadlineExceeded) || errors.Is(r.err, nats.ErrTimeout) {
		return text // the error only says that time is up
	}
	return text + ": " + plain(r.err)
}

func (r reason) Unwrap() error { return r.err }

// Is makes errors.Is find ErrNoRoom.
func (r reason) Is(target error) bool { return target == ErrNoRoom && r.what == ErrNoRoom.Error() }

var apiError = regexp.MustCompile(`(?:nats: )*API error: code=\d+ err_code=(\d+) description=(.*)`)

// plain returns the text of an error. Package nats repeats its name in it.
func plain(err error) string { return apiError.ReplaceAllString(err.Error(), "$2 ($1)") }

// noRoom reports whether a server has refused a request because it has no room.
func noRoom(err error) bool {
	api := new(jetstream.APIError)
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeAccountFull, codeFull, codeMemoryFull, codeStorageFull:
		return true
	case codeNotStored:
		return strings.Contains(api.Description, "exceeded") || strings.Contains(api.Description, "no space")
	}
	return false
}

// Error codes of JetStream that package jetstream does not name.
const (
	codeNoLeader    = 10008 // "JetStream system temporarily unavailable"
	codeNotLeader   = 10009
	codeAccountFull = 10002
	codeFull        = 10023 // "insufficient resources"
	codeMemoryFull  = 10028
	codeStorageFull = 10047
	codeNotStored   = 10077 // with a text of the store
)

// explain adds the reason to the error of a request, if the reason is known.
func (s *Store) explain(err error) error {
	if err == nil {
		s.denials.inbox.Store(nil) // an answer has come
		s.room.headless.succeeded()
		s.room.silent.succeeded()
		return nil
	}
	nc := s.link().nc
	if f := (final{}); errors.As(err, &f) || errors.As(err, new(reason)) || errors.Is(err, context.Canceled) || isConflict(err) ||
		nc.IsClosed() && !closedByServer(nc) {
		return err
	}
	silent := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
	api := new(jetstream.APIError)
	errors.As(err, &api)
	denied := s.denials.since(time.Now().Add(-2 * requestLimit))
	switch code := api.ErrorCode; {
	case nc.IsClosed():
		return reason{what: "no connection", more: ": the server has closed it", err: err}
	case !nc.IsConnected():
		more := " to " + servers(nc)
		if last := nc.LastError(); last != nil {
			more += " (" + last.Error() + ")"
		}
		return reason{what: "no connection", more: more, err: err}
	case silent && denied != nil:
		return reason{what: "no permission", more: " (" + denied.Error() + ")", err: err}
	case code == jetstream.JSErrCodeStreamNotFound || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound):
		return s.noStream(err)
	case code == codeNoLeader || code == codeNotLeader || errors.Is(err, jetstream.ErrNoStreamResponse):
		return s.noLeader(err)
	case code == jetstream.JSErrCodeJetStreamNotEnabled || code == jetstream.JSErrCodeJetStreamNotEnabledForAccount ||
		errors.Is(err, nats.ErrNoResponders):
		return reason{what: "no JetStream", more: ": it is off on the server, or for this account, or a disk was full", err: err}
	case noRoom(err):
		s.room.refuse(true)
		return reason{what: ErrNoRoom.Error(), err: err}
	case silent && errors.As(s.danger(), new(reason)):
		return s.noStream(err)
	case silent:
		return s.noAnswer(err)
	}
	return err
}

// noStream explains that a stream is gone.
func (s *Store) noStream(err error) reason {
	r := reason{}
	if !errors.As(s.danger(), &r) {
		r.what, r.more = "no stream", ": a stream of the store is gone"
	}
	r.err = err
	return r
}

// noLeader explains that no server leads a stream. On a cluster, a server that has no room does not lead. So when all
// have reached their limit, the last one refuses a request, and then no server answers.
func (s *Store) noLeader(err error) reason {
	if errors.As(s.danger(), new(reason)) {
		return s.noStream(err)
	}
	r := reason{what: "no leader", err: err, leaderless: true}
	since := s.room.headless.failed()
	p := s.serversUp()
	switch {
	case s.fullWithoutLeader() && (p == nil || p.up > len(p.names)/2):
		s.room.refuse(false)
		r.what, r.more = ErrNoRoom.Error(), ": servers that have reached a limit, or whose disks are full, elect no leader"
	case p == nil:
		r.more = ": too few servers are up, or they elect one, or have no room"
	case p.up <= len(p.names)/2:
		r.more = fmt.Sprintf(": too few servers are up: %d of %d", p.up, len(p.names))
	case p.allUp(since):
		s.room.refuse(false)
		r.what = ErrNoRoom.Error()
		r.more = fmt.Sprintf(": there is no leader although %d servers are up, as when disks are full, or a limit is reached", p.up)
	default:
		r.more = fmt.Sprintf(": %d of %d servers are up, so they elect one, or a disk is full, or a limit is reached", p.up, len(p.names))
	}
	return r
}

// noAnswer explains that no server answers. One whose disk was full is up, but its JetStream does not answer.
func (s *Store) noAnswer(err error) reason {
	r := reason{what: "no answer", more: ": the servers elect a leader, or are too slow, or a disk is full", err: err}
	since := s.room.silent.failed()
	if p := s.serversUp(); p != nil && p.allUp(since) {
		r.more = fmt.Sprintf(": %d of %d servers are up, so their disks are full, or they are too slow", p.up, len(p.names))
	}
	return r
}

// servers returns the addresses of the servers, without passwords.
func servers(nc *nats.Conn) string {
	var all []string
	for _, address := range nc.Servers() {
		if u, err := url.Parse(address); err == nil {
			all = append(all, u.Redacted())
		}
	}
	return strings.Join(all, ", ")
}

// Denials are the last complaints of the server that a permission is missing. They come apart from the requests that
// they make fail. One about the inbox comes once, and makes all requests fail.
type denials struct {
	inbox, other atomic.Pointer[denial]
	ping         atomic.Pointer[denial] // the servers may not be asked whether they are up
}

type denial struct {
	nc  *nats.Conn
	err error
	at  time.Time
}

// add notes a complaint, and reports whether it is to be logged. That servers may not be asked whether they are up is logged
// once for a connection, because count tries again.
func (d *denials) add(nc *nats.Conn, err error) bool {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return true
	}
	now := &denial{nc, err, time.Now()}
	if strings.Contains(err.Error(), pingSubject) {
		was := d.ping.Swap(now)
		return was == nil || was.nc != nc
	}
	which := &d.other
	if strings.Contains(err.Error(), "Subscription") {
		which = &d.inbox
	}
	which.Store(now)
	return true
}

// since returns a complaint that concerns a request of a time or later, or nil.
func (d *denials) since(at time.Time) error {
	if other := d.other.Load(); other != nil && other.at.After(at) {
		return other.err
	}
	if inbox := d.inbox.Load(); inbox != nil {
		return inbox.err
	}
	return nil
}
