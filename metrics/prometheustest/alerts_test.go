package prometheustest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashedwheel/hashedwheel/metrics/otelwheel"
	"github.com/hashedwheel/hashedwheel/metrics/promwheel"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

const alerts = "../alerts.yml"

// The alerts of the README of promwheel are those in alerts.yml.
func TestAlertsInReadme(t *testing.T) {
	words := func(file string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Join(strings.Fields(string(text)), " ")
	}
	exprs := regexp.MustCompile(`expr: \| (.*?) (?:for|- alert):`).FindAllStringSubmatch(words(alerts), -1)
	require.Len(t, exprs, 10)
	for _, expr := range exprs {
		require.True(t, strings.Contains(words("../promwheel/README.md"), expr[1]), expr[1])
	}
}

// Promtool finds nothing in alerts.yml. Of two timers, one with 0.5 percent of late tasks and one with 1.5 percent, only
// the latter raises an alert, although the former is so busy that some tasks are due whenever it is scraped. A timer
// whose tasks have stopped to start raises two, also if it has started many before, or if its clocks go on. Each alert has
// all labels of the series. If all timers of a process that are in use are late, there is one more alert, without the timer.
func TestAlerts(t *testing.T) {
	needPrometheus(t)
	rules, err := filepath.Abs(alerts)
	require.NoError(t, err)
	text, err := os.ReadFile(rules)
	require.NoError(t, err)
	test := filepath.Join(t.TempDir(), "test.yml")
	bound := string(regexp.MustCompile(`le="[^"]+"`).Find(text))
	var series, cases strings.Builder
	// add adds the series of a timer whose other labels are as given.
	add := func(labels, onTime, count, due string) {
		for name, values := range map[string]string{
			"lateness_seconds_count": count, "timeouts_expired_total": count, "timeouts_due": due,
			"panics_total": "0x20", "tasks_unsubmitted_total": "0x20",
		} {
			fmt.Fprintf(&series, "      - {series: 'hashedwheel_%s{%s}', values: %s}\n", name, labels, values)
		}
		fmt.Fprintf(&series, "      - {series: 'hashedwheel_lateness_seconds_bucket{%s, %s}', values: %s}\n", labels, bound, onTime)
	}
	const mixed, slow, single = `instance="mixed", team="a", timer="%s"`, `instance="slow", team="b", timer="%s"`, `instance="single", timer="%s"`
	add(fmt.Sprintf(mixed, "good"), "0+99500x20", "0+100000x20", "1000x20")
	add(fmt.Sprintf(mixed, "bad"), "0+985x20", "0+1000x20", "0x20")
	add(fmt.Sprintf(mixed, "stalled"), "0+90000x2 180000x18", "0+90000x2 180000x18", "0x2 998x18")
	add(fmt.Sprintf(mixed, "ticking"), "0+600x20", "0+600x20", "998x20")
	add(fmt.Sprintf(slow, "one"), "0+900x20", "0+1000x20", "0x20")
	add(fmt.Sprintf(slow, "two"), "0+90x20", "0+100x20", "0x20")
	add(fmt.Sprintf(slow, "unused"), "0x20", "0x20", "0x20")
	add(fmt.Sprintf(single, "bad"), "0+900x20", "0+1000x20", "0x20")
	for _, more := range []string{
		`hashedwheel_panics_total{instance="x", team="c", timer="panicking"}', values: 7x13 8x7`,
		`hashedwheel_tasks_unsubmitted_total{instance="x", team="c", timer="refused"}', values: 0+1x20`,
		`hashedwheel_timeouts_rejected_total{instance="x", team="c", timer="full", reason="full"}', values: 0+1x20`,
		`hashedwheel_timeouts_expired_total{instance="x", team="c", timer="hung"}', values: 0+24000x20`,
		`hashedwheel_keys_waiting{instance="x", team="c", timer="hung"}', values: 0+24000x20`,
		`hashedwheel_timeouts_expired_total{instance="x", team="c", timer="busy"}', values: 0+24000x20`,
		`hashedwheel_keys_waiting{instance="x", team="c", timer="busy"}', values: 200x20`,
		`hashedwheel_tasks_running{instance="x", team="c", timer="hanging"}', values: 0+10x20`,
		`hashedwheel_tasks_running{instance="x", team="c", timer="many"}', values: 500 600 550 500 700 500 510 600 500 500 550 520 600 500 500`,
		`hashedwheel_tasks_running{instance="x", team="c", timer="long by design"}', values: 0+40x5 200x15`,
		`hashedwheel_calls_stuck{instance="x", team="c", timer="stuck"}', values: 0x9 40x10`,
		`hashedwheel_calls_stuck{instance="x", team="c", timer="slow"}', values: 0x9 1 1 0 0 1 1 0 0 1`,
		`hashedwheel_timeouts_rejected_total{instance="x", team="c", timer="full", reason="stopped"}', values: 0+1x20`,
	} {
		fmt.Fprintf(&series, "      - {series: '%s}\n", more)
	}
	// expect adds an alert, with the labels and the summary that it must have each time.
	expect := func(alert string, all ...string) {
		fmt.Fprintf(&cases, "      - alertname: Hashedwheel%s\n        eval_time: 15m\n        exp_alerts:\n", alert)
		for i := 0; i < len(all); i += 2 {
			labels := strings.NewReplacer("=", ": ").Replace(all[i])
			fmt.Fprintf(&cases, "          - {exp_labels: {%s}, exp_annotations: {summary: %q}}\n", labels, all[i+1])
		}
	}
	late := func(form, timer string) []string {
		return []string{fmt.Sprintf(form, timer), fmt.Sprintf("More than one task in a hundred of the timer %s is late.", timer)}
	}
	expect("Late", slices.Concat(late(mixed, "bad"), late(mixed, "stalled"), late(mixed, "ticking"),
		late(slow, "one"), late(slow, "two"), late(single, "bad"))...)
	expect("AllLate", `instance="slow", team="b"`, "All 2 timers of the process that are in use are late, so look at its machine first.")
	stalled := func(timer string) []string {
		return []string{fmt.Sprintf(mixed, timer),
			fmt.Sprintf("Tasks of the timer %s are due and wait for more than a second, or do not start.", timer)}
	}
	expect("Stalled", slices.Concat(stalled("stalled"), stalled("ticking"))...)
	expect("Full", `instance="x", team="c", timer="full", reason="full"`, "The timer full has too many pending timeouts and refuses more.")
	expect("KeysWait", `instance="x", team="c", timer="hung"`, "Keys of maps of the timer hung have expired and wait for more than a second for WithConcurrency.")
	expect("Hangs", `instance="x", team="c", timer="hanging"`, "More and more tasks of the timer hanging, or other calls of user code, do not return.")
	expect("Stuck", `instance="x", team="c", timer="stuck"`, "A Next, a Canceled or the panic handler of the timer stuck does not return, or a WaitRunning.")
	expect("Panics", `instance="x", team="c", timer="panicking"`, "Tasks of the timer panicking, or its calls of Next, Canceled or submit, panic.")
	expect("Unsubmitted", `instance="x", team="c", timer="refused"`,
		"The executor of the timer refused does not take tasks, so they run without it.")
	require.NoError(t, os.WriteFile(test, fmt.Appendf(nil, "rule_files: [%q]\ntests:\n  - interval: 1m\n    input_series:\n%s    alert_rule_test:\n%s",
		rules, &series, &cases), 0o600))
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", test}} {
		out, err := exec.Command("promtool", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "SUCCESS")
	}
}

// Promtool finds nothing in the alerts for package deadlines. A store in which all is wrong raises each of them, and one
// in good order raises none. One whose deadlines have lost their wake-ups raises one although they are set again.
func TestAlertsOfDeadlines(t *testing.T) {
	needPrometheus(t)
	rules, err := filepath.Abs("../deadlines-alerts.yml")
	require.NoError(t, err)
	test := filepath.Join(t.TempDir(), "test.yml")
	require.NoError(t, os.WriteFile(test, fmt.Appendf(nil, `
rule_files: [%q]
tests:
  - interval: 1m
    input_series:
      - {series: 'deadlines_full{store="good"}', values: 0x20}
      - {series: 'deadlines_overdue{store="good"}', values: 1x20}
      - {series: 'deadlines_longest_run_seconds{store="good"}', values: 0+30x20}
      - {series: 'deadlines_undelivered{store="good"}', values: 0x20}
      - {series: 'deadlines_handled_total{store="good"}', values: 0+10x20}
      - {series: 'deadlines_failures_total{store="good"}', values: 0x20}
      - {series: 'deadlines_redelivered_total{store="good"}', values: 0+1x20}
      - {series: 'deadlines_clock_skew_seconds{store="good"}', values: -0.5x20}
      - {series: 'deadlines_unsafe{store="good"}', values: 0x20}
      - {series: 'deadlines_stranded{store="good"}', values: 0x20}
      - {series: 'deadlines_repaired_total{store="good"}', values: 5x20}
      - {series: 'deadlines_aside{store="good"}', values: 0x20}
      - {series: 'deadlines_unsafe{store="bad"}', values: 1x20}
      - {series: 'deadlines_stranded{store="bad"}', values: 3x20}
      - {series: 'deadlines_repaired_total{store="mended"}', values: 0x5 7x15}
      - {series: 'deadlines_aside{store="bad"}', values: 1x20}
      - {series: 'deadlines_full{store="bad"}', values: 1x20}
      - {series: 'deadlines_overdue{store="bad"}', values: 1622x20}
      - {series: 'deadlines_longest_run_seconds{store="bad"}', values: 0+60x20}
      - {series: 'deadlines_undelivered{store="bad"}', values: 7x20}
      - {series: 'deadlines_handled_total{store="bad"}', values: 10x20}
      - {series: 'deadlines_failures_total{store="bad"}', values: 0+30x20}
      - {series: 'deadlines_redelivered_total{store="bad"}', values: 0+90x20}
      - {series: 'deadlines_clock_skew_seconds{store="bad", instance="a"}', values: -1.5x20}
    alert_rule_test:
`, rules), 0o600))
	f, err := os.OpenFile(test, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	for name, summary := range map[string]string{
		"Full":        "The servers of the store bad have no room.",
		"Overdue":     "Deadlines of the store bad have come, and no handler ends.",
		"Hang":        "A handler of the store bad has run for more than ten minutes.",
		"Undelivered": "No worker gets the deadlines of the store bad that are due, or all are busy.",
		"Fail":        "Handlers of the store bad fail.",
		"Redelivered": "Workers of the store bad die, are too busy for the lease, or hand deadlines back because their handlers are slow.",
		"Unsafe":      "A stream of the store bad is gone, its settings lose deadlines, or its consumer is paused.",
		"Stranded":    "Deadlines of the store bad have lost their wake-ups.",
		"Aside":       "Wake-ups of the store bad are set aside.",
		"Clock":       "The clock of a differs from that of the servers.",
	} {
		labels := "{store: bad}"
		if name == "Clock" {
			labels = "{store: bad, instance: a}"
		}
		also := ""
		if name == "Stranded" {
			also = fmt.Sprintf(", {exp_labels: {store: mended}, exp_annotations: {summary: %q}}", strings.Replace(summary, "bad", "mended", 1))
		}
		_, err := fmt.Fprintf(f, "      - {alertname: Deadlines%s, eval_time: 15m, exp_alerts: [{exp_labels: %s, exp_annotations: {summary: %q}}%s]}\n",
			name, labels, summary, also)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", test}} {
		out, err := exec.Command("promtool", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "SUCCESS")
	}
}

// A faulty store is a store of package deadlines in which all is wrong.
type faultyStore struct{ scrapes atomic.Int64 }

func (*faultyStore) Name() string { return "orders" }

func (s *faultyStore) Figures(yield func(name, help string, counter bool, value float64)) {
	n := float64(s.scrapes.Add(1))
	for _, name := range []string{"full", "overdue", "undelivered", "unsafe", "stranded", "aside", "clock_skew_seconds"} {
		yield(name, "Of the test.", false, 2)
	}
	yield("longest_run_seconds", "Of the test.", false, 3600)
	yield("handled", "Of the test.", true, 1)
	yield("failures", "Of the test.", true, n)
	yield("redelivered", "Of the test.", true, 9*n)
	yield("repaired", "Of the test.", true, n)
}

// A server that scrapes such a store, through either adapter, fires all alerts. The test does not wait for minutes until
// an alert fires.
func TestAlertsOfDeadlinesFire(t *testing.T) {
	needPrometheus(t)
	text, err := os.ReadFile("../deadlines-alerts.yml")
	require.NoError(t, err)
	rules := filepath.Join(t.TempDir(), "alerts.yml")
	impatient := regexp.MustCompile(`for: \d+m`).ReplaceAll(text, []byte("for: 2s"))
	impatient = regexp.MustCompile(`\[\d[mh]\]`).ReplaceAll(impatient, []byte("[5s]"))
	require.NoError(t, os.WriteFile(rules, impatient, 0o600))
	registry, otelRegistry := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(promwheel.NewStoreCollector(&faultyStore{})))
	exporter, err := prometheusexporter.New(prometheusexporter.WithRegisterer(otelRegistry))
	require.NoError(t, err)
	provider := metric.NewMeterProvider(metric.WithReader(exporter))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(t.Context())) })
	_, err = otelwheel.RegisterStore(provider, &faultyStore{})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/promwheel", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/otelwheel", promhttp.HandlerFor(otelRegistry, promhttp.HandlerOpts{}))
	exposed := httptest.NewServer(mux)
	t.Cleanup(exposed.Close)
	s := startServer(t, config(rules, strings.TrimPrefix(exposed.URL, "http://")))
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllSubmatch(text, -1)
	require.Len(t, alerts, 10)
	for _, alert := range alerts {
		query := fmt.Sprintf(`count(ALERTS{alertstate="firing", alertname=%q, store="orders"})`, alert[1])
		s.eventually(query, func() bool { return slices.Equal(s.query(query), []float64{2}) })
	}
}
