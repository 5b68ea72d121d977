package server

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

const (
	watchInterval = time.Second
	restartPause  = 10 * time.Second // least time between two restarts
	freeSpace     = 4 << 20          // bytes that the disk must take before a restart
)

// watch starts the server again when it has stopped writing and its disk takes data again. It stops
// the server at the end.
func (s *Server) watch() {
	defer close(s.done)
	defer s.lock.Unlock()
	defer s.shutdown()
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	var told bool
	var earliest time.Time // of the next restart
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		reason := s.trouble()
		if reason == "" {
			continue
		}
		if !told {
			s.log.Error("JetStream is off, because "+reason, "dir", s.dir)
			told = true
		}
		if time.Now().Before(earliest) || tryWrite(s.dir) != nil {
			continue
		}
		earliest = time.Now().Add(restartPause)
		s.shutdown()
		if err := s.run(); err != nil {
			s.log.Error("JetStream is off, because the server does not start: "+err.Error(), "dir", s.dir)
			continue
		}
		s.log.Info("JetStream is on again, because the disk takes data", "dir", s.dir)
		told = false
	}
}

// trouble returns why the server must be started again, or "".
func (s *Server) trouble() string {
	if s.running == nil {
		return "the server did not start again"
	}
	if reason := s.logger.broken.Load(); reason != nil {
		return *reason
	}
	if !s.running.JetStreamEnabled() {
		return "the server disabled it"
	}
	return ""
}

func (s *Server) shutdown() {
	if s.running != nil {
		s.running.Shutdown()
		s.running.WaitForShutdown()
		s.running = nil
	}
}

// tryWrite writes a file to dir and removes it. It writes because the free space that a disk reports
// says nothing about quotas and failing disks.
func tryWrite(dir string) error {
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, freeSpace))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}
