package deadlines

import (
	"context"
	"errors"
	"net/url"
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
}

func (r reason) Error() string {
	text := r.what + r.more
	if errors.Is(r.err, context.DeadlineExceeded) || errors.Is(r.err, nats.ErrTimeout) {
		return text // the error only says that time is up
	}
	return text + ": " + r.err.Error()
}

func (r reason) Unwrap() error { return r.err }

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
		return reason{"no connection", ": the server has closed it", err}
	case !nc.IsConnected():
		more := " to " + servers(nc)
		if last := nc.LastError(); last != nil {
			more += " (" + last.Error() + ")"
		}
		return reason{"no connection", more, err}
	case silent && denied != nil:
		return reason{"no permission", " (" + denied.Error() + ")", err}
	case code == codeNoLeader || code == codeNotLeader || errors.Is(err, jetstream.ErrNoStreamResponse):
		return reason{"no leader", ": too few servers are up, or they elect one", err}
	case code == jetstream.JSErrCodeJetStreamNotEnabled || code == jetstream.JSErrCodeJetStreamNotEnabledForAccount ||
		errors.Is(err, nats.ErrNoResponders):
		return reason{"no JetStream", ": it is off on the server, or for this account", err}
	case code == codeAccountFull || code == codeFull || code == codeMemoryFull || code == codeStorageFull ||
		code == codeNotStored && (strings.Contains(api.Description, "exceeded") || strings.Contains(api.Description, "no space")):
		return reason{"no room", "", err}
	case silent:
		return reason{"no answer", ": the servers elect a leader, or are too slow", err}
	}
	return err
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
}

type denial struct {
	err error
	at  time.Time
}

func (d *denials) add(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	which := &d.other
	if strings.Contains(err.Error(), "Subscription") {
		which = &d.inbox
	}
	which.Store(&denial{err, time.Now()})
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
