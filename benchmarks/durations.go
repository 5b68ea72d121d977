package main

import "time"

// durations is a histogram of the durations of calls, in steps of 100 ns up to 100 ms. It allocates a page for
// a range of 100 microseconds only when a duration falls into that range, so that it adds little to the heap.
type durations struct {
	pages    [1000]*[1000]uint32
	over     int // calls of 100 ms or more
	count    int
	slow     int // calls of more than 1 ms
	greatest time.Duration
}

const (
	durationStep = 100 * time.Nanosecond
	durationPage = 1000 * durationStep
	durationEnd  = 1000 * durationPage
)

func (h *durations) add(d time.Duration) {
	h.count++
	h.greatest = max(h.greatest, d)
	if d > ms {
		h.slow++
	}
	if d >= durationEnd {
		h.over++
		return
	}
	page := &h.pages[d/durationPage]
	if *page == nil {
		*page = new([1000]uint32)
	}
	(*page)[d%durationPage/durationStep]++
}

func (h *durations) merge(other *durations) {
	for i, page := range other.pages {
		if page == nil {
			continue
		}
		if h.pages[i] == nil {
			h.pages[i] = new([1000]uint32)
		}
		for j, n := range page {
			h.pages[i][j] += n
		}
	}
	h.over += other.over
	h.count += other.count
	h.slow += other.slow
	h.greatest = max(h.greatest, other.greatest)
}

// exceededBy returns a duration that at most n calls exceed: the end of the lowest such step. It returns 100 ms
// if more than n calls take 100 ms or longer.
func (h *durations) exceededBy(n int) time.Duration {
	above := h.over
	if above > n {
		return durationEnd
	}
	for i := len(h.pages) - 1; i >= 0; i-- {
		if h.pages[i] == nil {
			continue
		}
		for j := len(h.pages[i]) - 1; j >= 0; j-- {
			if above += int(h.pages[i][j]); above > n {
				return time.Duration(i)*durationPage + time.Duration(j+1)*durationStep
			}
		}
	}
	return 0
}
