package deadlines

import (
	"context"
	"errors"
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

// watchLink follows the connection until Close, or until the program closes the connection.
func (s *Store) watchLink() {
	nc := s.link().nc
	old := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if s.ctx.Err() == nil && nc == s.link().nc { // the handler is an option of later connections too
			s.log.Warn("deadlines: error of the connection", "err", err)
		}
		if old != nil {
			old(nc, sub, err)
		}
	})
	s.watchers.Go(func() {
		for s.follow(s.link().nc) {
			s.relink()
		}
	})
}

// follow logs what happens to a connection. It returns false after Close, or if the connection is not to be made again.
func (s *Store) follow(nc *nats.Conn) bool {
	changes := nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer nc.RemoveStatusListener(changes)
	for !nc.IsClosed() {
		select {
		case status := <-changes:
			switch status {
			case nats.CONNECTED:
				s.log.Info("deadlines: connected again", "url", nc.ConnectedUrlRedacted())
			case nats.RECONNECTING:
				s.log.Warn("deadlines: disconnected", "err", nc.LastError())
			}
		case <-s.ctx.Done():
			return false
		}
	}
	if s.ctx.Err() != nil {
		return false
	}
	if !closedByServer(nc) {
		s.log.Error("deadlines: the connection is closed", "err", nc.LastError())
		return false
	}
	s.log.Warn("deadlines: the server has closed the connection, and another one is made", "err", nc.LastError())
	return true
}

// relink makes another connection with the options of the one before. It tries until Close.
func (s *Store) relink() {
	options := s.link().nc.Opts
	l := &link{own: true}
	err := persist(s.ctx, func(ctx context.Context) (err error) {
		if l.nc == nil || l.nc.IsClosed() {
			if l.nc, err = options.Connect(); err != nil {
				return err
			}
		}
		if l.js, err = jetstream.New(l.nc); err != nil {
			return err
		}
		if l.bucket, err = l.js.KeyValue(ctx, s.cfg.Name); err != nil {
			return err
		}
		if l.records, err = l.js.Stream(ctx, "KV_"+s.cfg.Name); err != nil {
			return err
		}
		l.wakeups, err = l.js.Stream(ctx, s.cfg.Name+"-wakeups")
		return err
	})
	if err != nil {
		l.nc.Close() // Close has ended the attempts
		return
	}
	s.linked.Store(l)
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
// others are those that do not close a connection, and those with which package nats gives up.
func closedByServer(nc *nats.Conn) bool {
	err := nc.LastError()
	if !nc.IsClosed() || err == nil || !strings.HasPrefix(err.Error(), "nats: ") {
		return false
	}
	return !slices.ContainsFunc([]error{
		nats.ErrSlowConsumer, nats.ErrBadHeaderMsg, nats.ErrPermissionViolation, nats.ErrMaxSubscriptionsExceeded,
		nats.ErrNoServers, nats.ErrStaleConnection, nats.ErrMaxConnectionsExceeded, nats.ErrMaxAccountConnectionsExceeded,
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	}, func(other error) bool { return errors.Is(err, other) })
}
