package deadlines

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A link is a connection, with what is bound to it.
type link struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	bucket  jetstream.KeyValue
	records jetstream.Stream // of the bucket
	wakeups jetstream.Stream
	own     bool // the store has made the connection, and closes it
}

// link returns the present link. It is another one after the server has closed a connection.
func (s *Store) link() *link { return s.linked.Load() }

// listen logs what happens to a connection. Later connections get these handlers too, as options. They
// call the handlers of the program when they have logged.
func (s *Store) listen(nc *nats.Conn) {
	mine := func(nc *nats.Conn) bool { return s.ctx.Err() == nil && nc == s.link().nc }
	failed, lost, back := nc.ErrorHandler(), nc.DisconnectErrHandler(), nc.ReconnectHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if mine(nc) && s.denials.add(nc, err) {
			kind := "connection"
			switch {
			case errors.Is(err, nats.ErrPermissionViolation): // the text has a subject, and that may have a key
				kind = "permission"
			case refused(err):
				kind = refusedKind
			}
			s.flood.report(kind, slog.LevelWarn, "deadlines: error of the connection", "err", err)
		}
		if failed != nil {
			failed(nc, sub, err)
		}
	})
	nc.SetDisconnectErrHandler(func(nc *nats.Conn, err error) {
		if mine(nc) && err != nil { // nil: by the program
			s.log.Warn("deadlines: disconnected", "err", err)
		}
		if lost != nil {
			lost(nc, err)
		}
	})
	nc.SetReconnectHandler(func(nc *nats.Conn) {
		if mine(nc) {
			s.flood.forget(refusedKind)
			s.log.Info("deadlines: connected again", "url", nc.ConnectedUrlRedacted())
		}
		if back != nil {
			back(nc)
		}
	})
}

// refusedKind is the kind of events that servers refuse a connection. They are over when there is one.
const refusedKind = "refused"

// refused reports whether an error says that a server refuses the credentials of a connection.
func refused(err error) bool {
	return slices.ContainsFunc(credentialErrors, func(other error) bool { return errors.Is(err, other) })
}

var credentialErrors = []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired}

// watchLink makes another connection whenever the server has closed one, until Close.
func (s *Store) watchLink() {
	for s.awaitClosed(s.link().nc) {
		s.relink()
	}
}

// awaitClosed waits until a connection is closed, and reports whether the server has done that.
func (s *Store) awaitClosed(nc *nats.Conn) bool {
	changes := nc.StatusChanged(nats.CLOSED)
	defer nc.RemoveStatusListener(changes)
	if !nc.IsClosed() {
		select {
		case <-changes:
		case <-s.ctx.Done():
		}
	}
	err := nc.LastError()
	switch {
	case s.ctx.Err() != nil:
		return false
	case closedByServer(nc):
		s.log.Warn("deadlines: the server has closed the connection, and another one is made", "err", err)
		return true
	case err != nil:
		s.log.Error("deadlines: the connection is closed", "err", err)
	default: // by the program
	}
	return false
}

// relink makes another connection with the options of the one before. It tries until Close.
func (s *Store) relink() {
	options := s.link().nc.Opts
	l := &link{own: true}
	err := s.persist(s.ctx, func(ctx context.Context) (err error) {
		if l.nc == nil || l.nc.IsClosed() {
			if l.nc, err = options.Connect(); err != nil {
				return err
			}
		}
		if l.js, err = jetstream.New(l.nc); err != nil {
			return err
		}
		if l.records, err = l.js.Stream(ctx, s.bucketName()); err != nil {
			return err
		}
		if err = s.bindBucket(ctx, l); err != nil {
			return err
		}
		_, err = s.ensureWakeups(ctx, l)
		return err
	})
	if err != nil {
		l.nc.Close() // Close has ended the attempts
		return
	}
	s.linked.Store(l)
	s.flood.forget(refusedKind)
	s.log.Info("deadlines: connected again", "url", l.nc.ConnectedUrlRedacted())
}

// release closes a connection that relink has made, when neither Close nor Work needs it any more.
func (s *Store) release() {
	if l := s.link(); l.own && s.ctx.Err() != nil && s.working.Load() == 0 {
		l.nc.Close()
	}
}

// gone reports whether an error says that the connection is closed and no other one will be made.
func (s *Store) gone(err error) bool {
	nc := s.link().nc
	return errors.Is(err, nats.ErrConnectionClosed) && nc.IsClosed() && !closedByServer(nc)
}

// closedByServer reports whether a connection is closed because the server has complained of the protocol, such as of
// a line that is too long. Package nats does not connect again then, and the text of the server is its last error. The
// other errors do not close a connection, or make package nats give up for good.
func closedByServer(nc *nats.Conn) bool {
	err := nc.LastError()
	if !nc.IsClosed() || err == nil || !strings.HasPrefix(err.Error(), "nats: ") {
		return false
	}
	return !refused(err) && !slices.ContainsFunc([]error{
		nats.ErrSlowConsumer, nats.ErrBadHeaderMsg, nats.ErrPermissionViolation, nats.ErrMaxSubscriptionsExceeded,
		nats.ErrNoServers, nats.ErrStaleConnection, nats.ErrMaxConnectionsExceeded, nats.ErrMaxAccountConnectionsExceeded,
	}, func(other error) bool { return errors.Is(err, other) })
}
