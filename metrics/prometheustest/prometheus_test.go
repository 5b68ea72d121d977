// Package prometheustest tests both adapters, the dashboard and the alerts with a real Prometheus. It is a module of its
// own, so that no adapter depends on the other one.
package prometheustest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/metrics/otelwheel"
	"github.com/hashedwheel/hashedwheel/metrics/otelwheel/lateness"
	"github.com/hashedwheel/hashedwheel/metrics/promwheel"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var jobs = []string{"otelwheel", "promwheel"}

func nop() {}

// serve serves the metrics of the timers until the test ends, at a path for each adapter. It returns the address.
func serve(t *testing.T, timers ...*hashedwheel.Timer) string {
	t.Helper()
	registry, otelRegistry := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
	producer := lateness.NewProducer()
	exporter, err := prometheusexporter.New(prometheusexporter.WithRegisterer(otelRegistry),
		prometheusexporter.WithProducer(producer))
	require.NoError(t, err)
	provider := metric.NewMeterProvider(metric.WithReader(exporter))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(t.Context())) })
	for _, timer := range timers {
		require.NoError(t, promwheel.Register(registry, timer))
		_, err := otelwheel.Register(provider, timer)
		require.NoError(t, err)
		require.NoError(t, producer.Add(timer))
	}
	mux := http.NewServeMux()
	mux.Handle("/promwheel", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/otelwheel", promhttp.HandlerFor(otelRegistry, promhttp.HandlerOpts{}))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// work gives two timers something of everything that they count, and returns when they rest.
func work(t *testing.T, s *server, rpc, old *hashedwheel.Timer, gate chan struct{}, refuse *atomic.Bool) {
	t.Helper()
	var ran sync.WaitGroup
	arm := func(task func()) {
		ran.Add(1)
		_, err := rpc.AfterFunc(0, func() { defer ran.Done(); task() })
		require.NoError(t, err)
	}
	for range 10 {
		arm(nop)
	}
	// Real time, because the server is real: these ten are late by more than 400 ms, and the others hardly.
	time.Sleep(500 * time.Millisecond)
	close(gate)
	ran.Wait()
	for range 30 {
		arm(nop)
		ran.Wait()
	}
	refuse.Store(true)
	arm(func() { panic("on purpose") })
	ran.Wait()

	to, err := rpc.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.True(t, to.Move(2*time.Hour))
	require.True(t, to.Cancel())
	for err == nil {
		_, err = rpc.AfterFunc(time.Hour, nop)
	}
	require.ErrorIs(t, err, hashedwheel.ErrTooManyPending)
	_, err = old.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.Len(t, old.Stop(), 1)
	_, err = old.AfterFunc(0, nop)
	require.ErrorIs(t, err, hashedwheel.ErrStopped)
	s.eventually("the timer does not rest", func() bool {
		st := rpc.Stats()
		return st.Running == 0 && st.Queued == 0 && st.Levels != nil && st.Panics == 1
	})
}

// Prometheus scrapes two timers through both adapters. It has the numbers of Stats, and every panel and alert has data.
func TestPrometheus(t *testing.T) {
	needPrometheus(t)
	gate, refuse := make(chan struct{}), new(atomic.Bool)
	rpc, err := hashedwheel.New(hashedwheel.WithName("rpc"), hashedwheel.WithMaxPending(60),
		hashedwheel.WithLogger(slog.New(slog.DiscardHandler)), hashedwheel.WithExecutor(func(run func()) error {
			if refuse.Load() {
				return errors.New("on purpose")
			}
			go func() { <-gate; run() }()
			return nil
		}))
	require.NoError(t, err)
	defer rpc.Stop()
	old, err := hashedwheel.New(hashedwheel.WithName("old"))
	require.NoError(t, err)
	defer old.Stop()

	address := serve(t, rpc, old)
	rules, err := filepath.Abs(alerts)
	require.NoError(t, err)
	s := startServer(t, config(rules, address))
	// A rate needs the count before the work.
	before := `{__name__=~"hashedwheel_(timeouts_pending|lateness_seconds_count)"}`
	s.eventually("nothing is scraped", func() bool { return len(s.query(before)) == 2*2*len(jobs) })
	work(t, s, rpc, old, gate, refuse)
	for _, job := range jobs {
		requireStats(t, s, job, rpc.Stats(), old.Stats())
		requireDashboard(t, s, job, address)

		_, text := s.read("http://" + address + "/" + job)
		require.Contains(t, string(text), "hashedwheel_lateness_seconds_bucket")
		lint := exec.Command("promtool", "check", "metrics")
		lint.Stdin = bytes.NewReader(text)
		out, err := lint.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Empty(t, string(out))
	}
	for _, alert := range []string{"HashedwheelLate", "HashedwheelFull", "HashedwheelPanics", "HashedwheelUnsubmitted"} { // only for rpc, through both adapters
		query := fmt.Sprintf(`count by (timer) (ALERTS{alertname=%q})`, alert)
		s.eventually(query, func() bool { return slices.Equal(s.query(query), []float64{2}) })
	}
}

// config is that of a server that scrapes both adapters each second, and adds a label.
func config(rules, address string) string {
	return fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - {job_name: promwheel, metrics_path: /promwheel, static_configs: [{targets: [%[2]q], labels: {team: payments}}]}
  - {job_name: otelwheel, metrics_path: /otelwheel, static_configs: [{targets: [%[2]q], labels: {team: payments}}]}
`, rules, address)
}

// In each of two timers two tasks hang at the limit, and a thousand timeouts are due and wait. Then HashedwheelStalled and
// HashedwheelLate fire for each, through both adapters, although no task has been late, and HashedwheelAllLate for the process.
// They have the label of the scrape. When the tasks go on, they stop. The test has the rules of alerts.yml, but does not wait
// for minutes until an alert fires.
func TestStall(t *testing.T) {
	needPrometheus(t)
	text, err := os.ReadFile(alerts)
	require.NoError(t, err)
	rules := filepath.Join(t.TempDir(), "alerts.yml")
	impatient := regexp.MustCompile(`for: \d+m`).ReplaceAll(text, []byte("for: 2s"))
	impatient = regexp.MustCompile(`\[\dm\]`).ReplaceAll(impatient, []byte("[4s]"))
	require.NoError(t, os.WriteFile(rules, impatient, 0o600))
	var timers []*hashedwheel.Timer
	for _, name := range []string{"retry", "rpc", "unused"} {
		timer, err := hashedwheel.New(hashedwheel.WithName(name), hashedwheel.WithMaxConcurrency(2),
			hashedwheel.WithLogger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		defer timer.Stop()
		timers = append(timers, timer)
	}
	s := startServer(t, config(rules, serve(t, timers...)))
	release := make(chan struct{})
	for _, timer := range timers[:2] {
		for range 1000 {
			_, err := timer.AfterFunc(0, func() { <-release })
			require.NoError(t, err)
		}
	}
	firing := func(want string) {
		t.Helper()
		query := `count by (alertname, timer, team) (ALERTS{alertstate="firing"})`
		s.eventually(want, func() bool {
			var data struct{ Result []struct{ Metric, Value any } }
			s.get("query", url.Values{"query": {query}}, &data)
			var all []string
			for _, r := range data.Result {
				all = append(all, fmt.Sprint(r.Metric, r.Value.([]any)[1]))
			}
			slices.Sort(all)
			return strings.Join(all, ", ") == want
		})
	}
	firing("map[alertname:HashedwheelAllLate team:payments]2, " +
		"map[alertname:HashedwheelLate team:payments timer:retry]2, map[alertname:HashedwheelLate team:payments timer:rpc]2, " +
		"map[alertname:HashedwheelStalled team:payments timer:retry]2, map[alertname:HashedwheelStalled team:payments timer:rpc]2")
	require.Equal(t, 998, timers[0].Stats().Due)
	close(release)
	firing("") // the tasks that start now are late, and out of sight after four seconds
}

// requireStats fails unless the server has the numbers of Stats of the timers, to the last one.
func requireStats(t *testing.T, s *server, job string, rpc, old hashedwheel.Stats) {
	t.Helper()
	for series, want := range map[string]uint64{
		`timeouts_accepted_total{timer="rpc"`:                  rpc.Accepted,
		`timeouts_expired_total{timer="rpc"`:                   rpc.Expired,
		`timeouts_canceled_total{timer="rpc"`:                  rpc.Canceled,
		`timeouts_rejected_total{timer="rpc",reason="full"`:    rpc.RejectedFull,
		`tasks_unsubmitted_total{timer="rpc"`:                  rpc.Unsubmitted,
		`panics_total{timer="rpc"`:                             rpc.Panics,
		`timeouts_returned_total{timer="old"`:                  old.Returned,
		`timeouts_rejected_total{timer="old",reason="stopped"`: old.RejectedStopped,
		`lateness_seconds_count{timer="rpc"`:                   rpc.Lateness.Count(),
	} {
		require.NotZero(t, want, series)
		query := fmt.Sprintf(`hashedwheel_%s,job=%q}`, series, job)
		s.eventually(query, func() bool { return slices.Equal(s.query(query), []float64{float64(want)}) })
	}

	for bound, n := range rpc.Lateness.Buckets() {
		le := strconv.FormatFloat(bound.Seconds(), 'g', -1, 64)
		onTime := s.query(fmt.Sprintf(`sum(rate(hashedwheel_lateness_seconds_bucket{timer="rpc",job=%[1]q,le=%[2]q}[5m]))
			/ sum(rate(hashedwheel_lateness_seconds_count{timer="rpc",job=%[1]q}[5m]))`, job, le))
		require.InDeltaSlice(t, []float64{float64(n) / float64(rpc.Lateness.Count())}, onTime, 1e-9, "up to %v", bound)
	}
	for _, q := range []float64{0.5, 0.99} {
		query := fmt.Sprintf(`histogram_quantile(%v, hashedwheel_lateness_seconds_bucket{timer="rpc",job=%q})`, q, job)
		var got []float64
		s.eventually(query, func() bool { got = s.query(query); return len(got) == 1 })
		var low, high time.Duration
		for bound := range rpc.Lateness.Buckets() {
			if low, high = high, bound; bound >= rpc.Lateness.Quantile(q) {
				break
			}
		}
		require.GreaterOrEqual(t, got[0], low.Seconds()-1e-9, query)
		require.LessOrEqual(t, got[0], high.Seconds()+1e-9, query)
	}
}

// requireDashboard fails unless each panel of the dashboard has data when the variables select a job, its instances
// and all its timers. Rates must be above zero, because work has something of everything.
func requireDashboard(t *testing.T, s *server, job, address string) {
	t.Helper()
	text, err := os.ReadFile("../grafana.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct {
				Name, Type string
				Query      any
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	chosen := map[string]string{"__rate_interval": "1m"}
	expand := func(expr string) string {
		return os.Expand(expr, func(name string) string {
			require.Contains(t, chosen, name)
			return chosen[name]
		})
	}
	offered := map[string][]string{"job": jobs, "instance": {address}, "timer": {"old", "rpc"}}
	for _, v := range dashboard.Templating.List {
		if v.Type != "query" {
			continue
		}
		query := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Query.(map[string]any)["query"].(string))
		require.NotNil(t, query, v.Name)
		var values []string
		s.get("label/"+query[2]+"/values", url.Values{"match[]": {expand(query[1])}}, &values)
		require.Equal(t, offered[v.Name], values, v.Name)
		if v.Name == "job" {
			values = []string{job}
		}
		for i := range values { // Grafana escapes values like this
			values[i] = strings.ReplaceAll(regexp.QuoteMeta(values[i]), `\`, `\\`)
		}
		chosen[v.Name] = "(" + strings.Join(values, "|") + ")"
	}
	require.Len(t, chosen, 1+len(offered))
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expr := expand(target.Expr)
			s.eventually(panel.Title+" has no data: "+expr, func() bool {
				return slices.ContainsFunc(s.query(expr), func(v float64) bool {
					return v > 0 || v == 0 && !strings.Contains(expr, "rate(")
				})
			})
		}
	}
}
