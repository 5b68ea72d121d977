package server

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// A logger passes the messages of a NATS server to slog, and remembers the ones that tell that the
// server does not work. The NATS server calls it with locks held, so it must not call the server.
type logger struct {
	log    *slog.Logger
	fatal  atomic.Pointer[string] // first reason why the server cannot start
	broken atomic.Pointer[string] // first reason why something can no longer be written
	reread atomic.Bool            // it has been logged that the server reads its messages again
}

func (l *logger) Fatalf(format string, v ...any) {
	m := fmt.Sprintf(format, v...)
	l.fatal.CompareAndSwap(nil, &m)
	l.log.Error(m)
}

// Errorf recognizes a message by its text, because the server has no other sign of it. After a "critical
// write error" the server does not use a stream, a consumer or a raft log until it is started again.
func (l *logger) Errorf(format string, v ...any) {
	m := fmt.Sprintf(format, v...)
	if strings.Contains(strings.ToLower(m), "critical write error") {
		l.broken.CompareAndSwap(nil, &m)
	}
	l.log.Error(m)
}

// Warnf logs one line for the warnings of a server that was killed. It then finds indexes that are older than the messages.
func (l *logger) Warnf(format string, v ...any) {
	m := fmt.Sprintf(format, v...)
	if !strings.HasPrefix(m, "Filestore [") || !strings.Contains(m, "outdated") {
		l.log.Warn(m)
		return
	}
	l.log.Debug(m)
	if !l.reread.Swap(true) {
		l.log.Info("the server was not stopped in good order, so it reads its messages again; it loses none")
	}
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(string, ...any)           {}
func (l *logger) Tracef(string, ...any)           {}
