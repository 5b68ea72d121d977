package main

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func TestCallsCheck(t *testing.T) {
	good := func() *callsReport {
		return &callsReport{
			opts: options{count: 2}, issued: 2,
			records: []record{
				{issued: true, ends: 1, answer: 2, attempts: 1},
				{issued: true, ends: 1, answer: 1, attempts: 3},
			},
			ledger:    []string{"order-2", "order-1"},
			byOutcome: [outcomes]int{answered: 2},
		}
	}
	require.NoError(t, good().check())
	for want, spoil := range map[string]func(r *callsReport){
		"1 calls were made, not 2":                                                               func(r *callsReport) { r.issued = 1 },
		"1 calls have never ended":                                                               func(r *callsReport) { r.records[0].ends = 0 },
		"1 calls have ended twice":                                                               func(r *callsReport) { r.records[0].ends = 2 },
		"1 calls were answered, but not carried out exactly once":                                func(r *callsReport) { r.ledger = r.ledger[:1]; r.records[1].answer = 1 },
		"2 calls got the answer to another call":                                                 func(r *callsReport) { r.records[0].answer, r.records[1].answer = 0, 3 },
		"2 orders were carried out more than once, or were never placed":                         func(r *callsReport) { r.ledger = append(r.ledger, "order-3", "order-2") },
		"1 calls were given up, though neither -attempts":                                        func(r *callsReport) { r.byOutcome[gaveUp] = 1 },
		"1 calls were canceled, but nobody canceled one":                                         func(r *callsReport) { r.byOutcome[canceled] = 1 },
		"1 calls failed permanently":                                                             func(r *callsReport) { r.byOutcome[failed] = 1 },
		"1 calls were abandoned":                                                                 func(r *callsReport) { r.byOutcome[abandoned] = 1 },
		"but holds 1 timeouts, and 0 tasks are running":                                          func(r *callsReport) { r.timer.Pending = 1 },
		"but holds 0 timeouts, and 1 tasks are running":                                          func(r *callsReport) { r.timer.Running = 1 },
		"1 tasks panicked":                                                                       func(r *callsReport) { r.timer.Panics = 1 },
		"1 orders were carried out more than once, or were never placed\n1 calls were abandoned": func(r *callsReport) { r.records[1].issued = false; r.byOutcome[abandoned] = 1 },
	} {
		bad := good()
		spoil(bad)
		require.ErrorContains(t, bad.check(), want)
	}
	limited := good()
	limited.opts.attempts, limited.byOutcome[gaveUp] = 3, 1
	require.NoError(t, limited.check())
	interrupted := good()
	interrupted.interrupted, interrupted.issued, interrupted.byOutcome[abandoned] = true, 1, 1
	require.NoError(t, interrupted.check())
}

func TestFleetCheck(t *testing.T) {
	good := fleetReport{
		opts: options{providers: 3}, bound: time.Second, complete: true,
		allPublished: true, publishedIn: time.Second, restarted: true, lost: 3, allBack: true, backIn: time.Second,
		stopped: 1, listed: 2, verdict: verdict{rightly: 1},
	}
	require.NoError(t, good.check())
	for want, spoil := range map[string]func(r *fleetReport){
		"who was alive":                             func(r *fleetReport) { r.verdict.wrongly = []string{"who was alive"} },
		"b\nc\nand 2 more leases":                   func(r *fleetReport) { r.verdict.wrongly = []string{"a", "b", "c", "d", "e"} },
		"published within 1000 ms: it took 1100 ms": func(r *fleetReport) { r.publishedIn = 1100 * ms },
		"not all providers were published":          func(r *fleetReport) { r.allPublished = false },
		"back within 1000 ms: it took 1100 ms":      func(r *fleetReport) { r.backIn = 1100 * ms },
		"not all providers were back":               func(r *fleetReport) { r.allBack = false },
		"lost 2 registrations of 3":                 func(r *fleetReport) { r.lost = 2 },
		"saw 3 providers":                           func(r *fleetReport) { r.listed = 3 },
		"missed 1 of the 2 live ones":               func(r *fleetReport) { r.unlisted = 1 },
		"holds 1 leases":                            func(r *fleetReport) { r.left = 1 },
		"0 leases expired rightly":                  func(r *fleetReport) { r.verdict.rightly = 0 },
		"1 still renew":                             func(r *fleetReport) { r.renewing = 1 },
		"1 tasks are running":                       func(r *fleetReport) { r.timer.Running = 1 },
		"1 tasks of the providers panicked":         func(r *fleetReport) { r.timer.Panics = 1 },
	} {
		bad := good
		spoil(&bad)
		require.ErrorContains(t, bad.check(), want)
	}
	require.NoError(t, (&fleetReport{opts: options{providers: 3}, renewing: 3}).check(), "interrupted")
	require.Error(t, (&fleetReport{verdict: verdict{wrongly: []string{"early"}}}).check(), "also if interrupted")
}

func TestRush(t *testing.T) {
	up := time.Now()
	at := func(d time.Duration) time.Time { return up.Add(d) }
	r := callsReport{records: []record{
		{ends: 1, firstFailed: at(-5 * ms), ended: at(30 * ms)},
		{ends: 1, firstFailed: at(0), ended: at(20 * ms)},
		{ends: 1, firstFailed: at(-5 * ms), ended: at(-1)},                       // ended before the service came up
		{ends: 1, firstFailed: at(1), ended: at(50 * ms)},                        // failed after the service came up
		{ends: 1, ended: at(60 * ms)},                                            // never failed
		{ends: 1, firstFailed: at(-5 * ms), ended: at(70 * ms), outcome: gaveUp}, // not answered
	}}
	waited, last := r.rush(up)
	require.Equal(t, 2, waited)
	require.Equal(t, 30*ms, last)
}

func TestPrinting(t *testing.T) {
	require.Equal(t, "0", commas(0))
	require.Equal(t, "999", commas(999))
	require.Equal(t, "1,000", commas(1000))
	require.Equal(t, "12,034,056", commas(12034056))
	require.Equal(t, "-1,234", commas(-1234))
	require.Equal(t, "calls that made attempt  1: 1,000  2: 3", attemptsLine([]int{1000, 3}))
	require.Contains(t, attemptsLine(make([]int, 12)), "  12: 0")
	require.Contains(t, attemptsLine(append(make([]int, 12), 4, 5)), "  12: 0  later attempts: 9")
	var out bytes.Buffer
	count(&out, "calls", 2000, "")
	require.Equal(t, "calls              2,000\n", out.String())
}
