package main

import (
	"runtime"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A snapshot is what the server sends to the page, as JSON.
type snapshot struct {
	Timer      int           `json:"timer"`      // the number of this timer, from 1
	HandedBack int64         `json:"handedBack"` // timeouts that the previous timer returned from Shutdown
	Wheel      wheelSettings `json:"wheel"`
	Load       loadSettings  `json:"load"`

	Pending    int   `json:"pending"`
	Queued     int   `json:"queued"`
	Running    int   `json:"running"`
	Runners    int   `json:"runners"`
	Blocked    int64 `json:"blocked"` // blocking tasks that run or are about to
	Early      int64 `json:"early"`
	Goroutines int   `json:"goroutines"` // of the process

	Counts counts `json:"counts"` // of this timer, since New
	Rates  rates  `json:"rates"`

	Ticks    int64       `json:"ticks"`  // boundaries since New
	Levels   []levelView `json:"levels"` // empty while nothing is pending
	Lateness lateness    `json:"lateness"`
}

type counts struct {
	Scheduled uint64 `json:"scheduled"`
	Expired   uint64 `json:"expired"`
	Canceled  uint64 `json:"canceled"`
	Rejected  uint64 `json:"rejected"`
	Wakeups   uint64 `json:"wakeups"`
}

// rates are per second.
type rates struct {
	Scheduled float64 `json:"scheduled"`
	Expired   float64 `json:"expired"`
	Canceled  float64 `json:"canceled"`
	Wakeups   float64 `json:"wakeups"`
}

type levelView struct {
	Hand     int   `json:"hand"` // the slot that it is in
	Occupied int   `json:"occupied"`
	Timeouts int   `json:"timeouts"`
	Buckets  []int `json:"buckets"` // how many timeouts are in each
}

// lateness says how late the tasks of the last ten seconds started, in microseconds.
type lateness struct {
	Count   uint64  `json:"count"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Max     float64 `json:"max"`
	Classes []class `json:"classes"`
}

// A class counts the tasks that were late by at most UpTo microseconds, and by more than the class before.
type class struct {
	UpTo float64 `json:"upTo"`
	N    uint64  `json:"n"`
}

// A sampler takes the snapshots for one page. Its rates cover about the last second, and its lateness covers
// the last ten seconds.
type sampler struct {
	lab  *lab
	rig  *rig         // of the last snapshot
	past []moment     // of rig, oldest first
	late []lateMoment // the same, one a second
}

type moment struct {
	at     time.Time
	counts counts
}

type lateMoment struct {
	at   time.Time
	late hashedwheel.Histogram // up to then
}

const lateSpan = 10 * time.Second

func (s *sampler) snapshot() snapshot {
	r := s.lab.rig.Load()
	if r != s.rig {
		*s = sampler{lab: s.lab, rig: r}
	}
	st := r.timer.Stats()
	now := moment{time.Now(), counts{st.Accepted, st.Expired, st.Canceled, st.Rejected, st.Wakeups}}
	v := snapshot{
		Timer:      r.number,
		HandedBack: s.lab.handedBack.Load(),
		Wheel:      r.settings,
		Load:       *r.load.Load(),
		Pending:    st.Pending,
		Queued:     st.Queued,
		Running:    st.Running,
		Runners:    st.Runners,
		Blocked:    r.blocked.Load(),
		Early:      r.early.Load(),
		Goroutines: runtime.NumGoroutine(),
		Counts:     now.counts,
		Rates:      s.rates(now),
		Ticks:      int64(now.at.Sub(r.start) / r.settings.tick()),
		Levels:     []levelView{},
		Lateness:   latenessOf(s.lately(now.at, st.Lateness)),
	}
	for i, l := range st.Levels {
		buckets := r.timer.Buckets(i)
		if buckets == nil { // the last timeout has ended since then
			buckets = []int{}
		}
		v.Levels = append(v.Levels, levelView{l.Hand, l.Occupied, l.Timeouts, buckets})
	}
	return v
}

// rates returns the counts per second, over about the last second.
func (s *sampler) rates(now moment) rates {
	s.past = append(s.past, now)
	if len(s.past) > int(time.Second/frame) {
		s.past = append(s.past[:0], s.past[1:]...)
	}
	then := s.past[0]
	span := now.at.Sub(then.at).Seconds()
	if span <= 0 {
		return rates{}
	}
	perSecond := func(now, then uint64) float64 { return float64(now-then) / span }
	return rates{
		perSecond(now.counts.Scheduled, then.counts.Scheduled),
		perSecond(now.counts.Expired, then.counts.Expired),
		perSecond(now.counts.Canceled, then.counts.Canceled),
		perSecond(now.counts.Wakeups, then.counts.Wakeups),
	}
}

// lately returns the part of all, a histogram since New, that was added in the last ten seconds.
func (s *sampler) lately(now time.Time, all hashedwheel.Histogram) hashedwheel.Histogram {
	if len(s.late) == 0 && now.Sub(s.rig.start) < lateSpan {
		s.late = append(s.late, lateMoment{at: s.rig.start})
	}
	if n := len(s.late); n == 0 || now.Sub(s.late[n-1].at) >= time.Second {
		s.late = append(s.late, lateMoment{now, all})
	}
	for len(s.late) > 1 && now.Sub(s.late[1].at) >= lateSpan {
		s.late = append(s.late[:0], s.late[1:]...)
	}
	return all.Sub(s.late[0].late)
}

func latenessOf(h hashedwheel.Histogram) lateness {
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	v := lateness{Count: h.Count(), Classes: []class{}}
	if v.Count == 0 {
		return v
	}
	v.P50, v.P99, v.Max = micros(h.Quantile(0.5)), micros(h.Quantile(0.99)), micros(h.Quantile(1))
	for upTo, n := range h.All() {
		if n > 0 {
			v.Classes = append(v.Classes, class{micros(upTo), n})
		}
	}
	return v
}
