package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashedwheel/hashedwheel"
)

// A lab has one rig at a time. It replaces the rig when the settings of the wheel change.
type lab struct {
	rig atomic.Pointer[rig] // written with mu held

	mu   sync.Mutex // serializes changes
	sums sums       // of the rigs that have been closed

	handedBack atomic.Int64 // by the previous rig, when it was shut down
}

func newLab(w wheelSettings, load loadSettings) (*lab, error) {
	l := new(lab)
	r, err := newRig(w, load, 1)
	if err != nil {
		return nil, err
	}
	l.rig.Store(r)
	return l, nil
}

// changeLoad applies edit to the load. It changes nothing if edit or the check of its result fails.
func (l *lab) changeLoad(edit func(*loadSettings) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rig.Load()
	s := *r.load.Load()
	if err := edit(&s); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	r.setLoad(s)
	return nil
}

// changeWheel applies edit to the settings of the wheel. If they change and are valid, a new timer
// takes over the load and the old one is shut down.
func (l *lab) changeWheel(edit func(*wheelSettings) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.rig.Load()
	s := old.settings
	if err := edit(&s); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if s == old.settings {
		return nil
	}
	if old.timer.IsStopped() { // the lab has been closed
		return hashedwheel.ErrStopped
	}
	r, err := newRig(s, *old.load.Load(), old.number+1)
	if err != nil {
		return err
	}
	l.rig.Store(r)
	done := old.close()
	l.handedBack.Store(int64(done.returned))
	l.sums.add(done)
	return nil
}

func (l *lab) block(b blockage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rig.Load().block(b)
}

// close ends the current rig and returns the sums of every timer. Later changes fail or have no
// effect.
func (l *lab) close() sums {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sums.add(l.rig.Load().close())
	return l.sums
}

// sums count how the timeouts of shut-down timers ended.
type sums struct {
	timers                                int
	accepted, expired, canceled, returned uint64
	early                                 int64
	errs                                  []error
}

// sumsOf returns the sums of a rig whose Shutdown returned handedBack timeouts and err.
func sumsOf(r *rig, handedBack int, err error) sums {
	st := r.timer.Stats()
	s := sums{1, st.Accepted, st.Expired, st.Canceled, st.Returned, r.early.Load(), nil}
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("timer %d: %w", r.number, err))
	}
	if st.Pending != 0 || st.Running != 0 || handedBack != int(st.Returned) {
		s.errs = append(s.errs, fmt.Errorf("timer %d is shut down and has handed back %d of %d, but %d are pending and %d tasks run",
			r.number, handedBack, st.Returned, st.Pending, st.Running))
	}
	return s
}

func (s *sums) add(o sums) {
	s.timers += o.timers
	s.accepted += o.accepted
	s.expired += o.expired
	s.canceled += o.canceled
	s.returned += o.returned
	s.early += o.early
	s.errs = append(s.errs, o.errs...)
}

// check returns an error that names every sum that does not add up.
func (s *sums) check() error {
	errs := s.errs
	if s.expired+s.canceled+s.returned != s.accepted {
		errs = append(errs, fmt.Errorf("expired %d + canceled %d + handed back %d is not scheduled %d",
			s.expired, s.canceled, s.returned, s.accepted))
	}
	if s.early != 0 {
		errs = append(errs, fmt.Errorf("%d tasks were started early", s.early))
	}
	return errors.Join(errs...)
}

func (s *sums) print(w io.Writer) {
	fmt.Fprintf(w, "timers %d, started early %d\nexpired %d + canceled %d + handed back %d of scheduled %d\n",
		s.timers, s.early, s.expired, s.canceled, s.returned, s.accepted)
}
