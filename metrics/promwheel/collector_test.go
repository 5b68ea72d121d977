package promwheel

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTimer(t testing.TB, opts ...hashedwheel.Option) *hashedwheel.Timer {
	t.Helper()
	timer, err := hashedwheel.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	return timer
}

func nop() {}

// scrape gets the metrics over HTTP, as Prometheus does, and parses them.
func scrape(t *testing.T, registry *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer server.Close()
	client := server.Client()
	defer client.CloseIdleConnections()
	reply, err := client.Get(server.URL)
	require.NoError(t, err)
	defer reply.Body.Close()
	require.Equal(t, http.StatusOK, reply.StatusCode)
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(reply.Body)
	require.NoError(t, err)
	return families
}

// labels returns the labels of a metric.
func labels(m *dto.Metric) map[string]string {
	all := make(map[string]string)
	for _, l := range m.GetLabel() {
		all[l.GetName()] = l.GetValue()
	}
	return all
}

// find returns the metric of a family with these labels, or nil if there is none.
func find(families map[string]*dto.MetricFamily, name string, want map[string]string) *dto.Metric {
	for _, m := range families[name].GetMetric() {
		if maps.Equal(labels(m), want) {
			return m
		}
	}
	return nil
}

func value(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() // one of them is nil, which counts as 0
}

func TestLint(t *testing.T) {
	timer := newTimer(t, hashedwheel.WithLevels(2))
	_, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	problems, err := testutil.CollectAndLint(NewCollector(timer))
	require.NoError(t, err)
	require.Empty(t, problems)
}

// The metrics of two timers in one registry, scraped over HTTP, are exactly the numbers of Stats, also after a
// timer has been stopped.
func TestScrape(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	var timers []*hashedwheel.Timer
	for _, name := range []string{"rpc", ""} {
		timer := newTimer(t, hashedwheel.WithName(name), hashedwheel.WithTick(time.Millisecond), hashedwheel.WithLevels(2),
			hashedwheel.WithMaxPending(30), hashedwheel.WithPanicHandler(func(*hashedwheel.Timeout, any, []byte) {}))
		timers = append(timers, timer)
		require.NoError(t, Register(registry, timer))
	}
	for name, label := range map[string]string{"rpc": "rpc", "": "timer"} {
		err := Register(registry, newTimer(t, hashedwheel.WithName(name)))
		require.EqualError(t, err, `promwheel: registering a timer with the name "`+label+
			`": duplicate metrics collector registration attempted`)
		require.ErrorAs(t, err, new(prometheus.AlreadyRegisteredError))
	}

	rpc := timers[0]
	var ran sync.WaitGroup
	ran.Add(3)
	for i := range 3 {
		_, err := rpc.AfterFunc(0, func() {
			defer ran.Done()
			if i == 0 {
				panic("on purpose")
			}
		})
		require.NoError(t, err)
	}
	ran.Wait()
	for range 30 {
		_, err := rpc.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
	}
	_, err := rpc.AfterFunc(0, nop)
	require.ErrorIs(t, err, hashedwheel.ErrTooManyPending)
	// The timer comes to rest: nothing is queued, and its goroutine sleeps for an hour.
	require.Eventually(t, func() bool {
		before := rpc.Stats()
		time.Sleep(20 * time.Millisecond)
		st := rpc.Stats()
		return st.Queued == 0 && st.Runners == 0 && st.Wakeups == before.Wakeups
	}, 10*time.Second, time.Millisecond)

	requireStats(t, registry, "rpc", rpc)
	requireStats(t, registry, "timer", timers[1])
	require.Len(t, rpc.Stop(), 30)
	for range 2 {
		_, err = rpc.AfterFunc(0, nop)
		require.ErrorIs(t, err, hashedwheel.ErrStopped)
	}
	st := requireStats(t, registry, "rpc", rpc)
	require.Nil(t, st.Levels)
	require.EqualValues(t, 30, st.Returned)
	require.EqualValues(t, 1, st.RejectedFull)
	require.EqualValues(t, 2, st.RejectedStopped)
	require.EqualValues(t, 1, st.Panics)
	require.EqualValues(t, 3, st.Expired)
}

// requireStats fails unless a scrape has the numbers of Stats of a timer. It returns those Stats. It scrapes again if
// the timer's goroutine has changed anything meanwhile, which a busy machine may delay.
func requireStats(t *testing.T, registry *prometheus.Registry, name string, timer *hashedwheel.Timer) hashedwheel.Stats {
	t.Helper()
	st, families := timer.Stats(), scrape(t, registry)
	end := time.Now().Add(time.Minute)
	for now := timer.Stats(); !reflect.DeepEqual(st, now); now = timer.Stats() {
		require.True(t, time.Now().Before(end), "the numbers keep changing")
		st, families = now, scrape(t, registry)
	}
	for metric, want := range map[string]float64{
		"timeouts_pending":        float64(st.Pending),
		"timeouts_due":            float64(st.Due),
		"keys_waiting":            float64(st.KeysWaiting),
		"calls_stuck":             float64(st.Stuck),
		"timeouts_queued":         float64(st.Queued),
		"timeouts_accepted_total": float64(st.Accepted),
		"timeouts_expired_total":  float64(st.Expired),
		"timeouts_canceled_total": float64(st.Canceled),
		"timeouts_returned_total": float64(st.Returned),
		"tasks_running":           float64(st.Running),
		"tasks_unsubmitted_total": float64(st.Unsubmitted),
		"panics_total":            float64(st.Panics),
		"wakeups_total":           float64(st.Wakeups),
		"runners":                 float64(st.Runners),
	} {
		m := find(families, "hashedwheel_"+metric, map[string]string{"timer": name})
		require.NotNil(t, m, metric)
		require.Equal(t, want, value(m), metric)
	}
	for reason, want := range map[string]uint64{"full": st.RejectedFull, "stopped": st.RejectedStopped} {
		m := find(families, "hashedwheel_timeouts_rejected_total", map[string]string{"timer": name, "reason": reason})
		require.NotNil(t, m, reason)
		require.EqualValues(t, want, value(m), reason)
	}
	m := find(families, "hashedwheel_lateness_seconds", map[string]string{"timer": name})
	require.NotNil(t, m)
	h := m.GetHistogram()
	require.Equal(t, st.Lateness.Count(), h.GetSampleCount())
	require.InEpsilon(t, 1+st.Lateness.SumSeconds(), 1+h.GetSampleSum(), 1e-12)
	got := make(map[float64]uint64)
	for _, b := range h.GetBucket() {
		got[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	for bound, n := range st.Lateness.Buckets() {
		require.Equal(t, n, got[bound.Seconds()], "up to %v", bound)
	}
	levels := 0
	for _, m := range families["hashedwheel_level_timeouts"].GetMetric() {
		if labels(m)["timer"] == name {
			levels++
		}
	}
	require.Len(t, st.Levels, levels)
	for i, l := range st.Levels {
		want := map[string]string{"timer": name, "level": string(rune('0' + i))}
		require.EqualValues(t, l.Timeouts, value(find(families, "hashedwheel_level_timeouts", want)))
		require.EqualValues(t, l.Occupied, value(find(families, "hashedwheel_level_occupied_buckets", want)))
	}
	return st
}

// On virtual time lateness is exact: 65 tasks run one after another and take a second each. The runner measures
// the first and the last of them.
func TestLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, hashedwheel.WithTick(time.Millisecond), hashedwheel.WithMaxConcurrency(1))
		for range 65 {
			_, err := timer.AfterFunc(time.Millisecond, func() { time.Sleep(time.Second) })
			require.NoError(t, err)
		}
		time.Sleep(66 * time.Second)
		synctest.Wait()
		st := timer.Stats().Lateness
		require.NotZero(t, st.Count())
		metrics := collect(NewCollector(timer))
		var h *dto.Histogram
		for _, m := range metrics {
			if m.GetHistogram() != nil {
				require.Nil(t, h)
				h = m.GetHistogram()
			}
		}
		require.Equal(t, st.Count(), h.GetSampleCount())
		require.Equal(t, st.Sum().Seconds(), h.GetSampleSum())
		require.GreaterOrEqual(t, h.GetSampleSum(), 64.0)
		bounds := make([]float64, 0, 25)
		for _, b := range h.GetBucket() {
			bounds = append(bounds, b.GetUpperBound())
		}
		require.True(t, slices.IsSorted(bounds))
		require.Len(t, bounds, 25)
	})
}

func collect(c *Collector) (all []*dto.Metric) {
	ch := make(chan prometheus.Metric)
	go func() {
		c.Collect(ch)
		close(ch)
	}()
	for m := range ch {
		var out dto.Metric
		if err := m.Write(&out); err != nil {
			panic(err)
		}
		all = append(all, &out)
	}
	return all
}

// Many goroutines scrape at the same time, while the timer is in use.
func TestConcurrentScrapes(t *testing.T) {
	timer := newTimer(t, hashedwheel.WithTick(time.Millisecond))
	c := NewCollector(timer)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if _, err := timer.AfterFunc(0, nop); err != nil {
					panic(err)
				}
				if len(collect(c)) < len(metrics)+2 {
					panic("metrics are missing")
				}
			}
		})
	}
	wg.Wait()
}
