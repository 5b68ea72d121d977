package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashedwheel/hashedwheel"
)

// A lab has one rig at a time, and replaces it by another when the settings of the wheel change.
type lab struct {
	rig atomic.Pointer[rig] // read by anyone, written with mu held

	mu   sync.Mutex // held by whoever changes anything
	sums sums       // of the rigs that have been closed

	handedBack atomic.Int64 // by the rig before, when it was shut down
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

// changeLoad changes the load by what edit makes of the settings, unless it fails.
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

// changeWheel has a new timer take the load over and shuts the old one down, if edit changes
// anything and does not fail.
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

// close ends all there is and returns the sums of every timer. A change that comes later fails, or
// has no effect.
func (l *lab) close() sums {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sums.add(l.rig.Load().close())
	return l.sums
}

// sums are what became of the timeouts of timers that have been shut down.
type sums struct {
	timers                                int
	accepted, expired, canceled, returned uint64
	early                                 int64
	errs                                  []error
}

// sumsOf returns those of a rig whose timer has handed back so many timeouts.
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

// check returns an error that names everything that should hold and does not.
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
