package otelwheel

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/metrics/otelwheel/lateness"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// table returns the rows of the table of metrics in a README, without backquotes.
func table(t *testing.T, file string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `hashedwheel.") {
			cells := strings.Split(strings.Trim(strings.ReplaceAll(line, "`", ""), "| \n"), " | ")
			require.Len(t, cells, 6, line)
			rows = append(rows, cells)
		}
	}
	return rows
}

// The exporter of OpenTelemetry for Prometheus gives the metrics exactly the names, types and labels of package
// promwheel, which are in the table of its README. The test of promwheel compares that table with its metrics.
func TestNamesInPrometheus(t *testing.T) {
	rows := table(t, "../promwheel/README.md")
	require.NotEmpty(t, rows)
	require.Equal(t, rows, table(t, "README.md"))

	registry := prometheus.NewPedanticRegistry()
	producer := lateness.NewProducer()
	exporter, err := prometheusexporter.New(prometheusexporter.WithRegisterer(registry),
		prometheusexporter.WithProducer(producer))
	require.NoError(t, err)
	reader := metric.NewManualReader(metric.WithProducer(producer))
	provider := metric.NewMeterProvider(metric.WithReader(exporter), metric.WithReader(reader))
	defer func() { require.NoError(t, provider.Shutdown(t.Context())) }()
	timer := newTimer(t, hashedwheel.WithName("rpc"))
	_, err = timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return timer.Stats().Levels != nil }, 10*time.Second, time.Millisecond)
	_, err = Register(provider, timer)
	require.NoError(t, err)
	require.NoError(t, producer.Add(timer))

	var want, got []string
	for _, row := range rows {
		want = append(want, row[0]+" "+row[1], row[2]+" "+row[3]+" "+row[4])
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if name := family.GetName(); name == "target_info" || name == "otel_scope_info" {
			continue // the resource, and in earlier versions of the exporter the scope
		}
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			if !strings.HasPrefix(label.GetName(), "otel_scope_") {
				labels = append(labels, label.GetName())
			}
			if label.GetName() == "timer" {
				require.Equal(t, "rpc", label.GetValue())
			}
		}
		if h := family.GetMetric()[0].GetHistogram(); h != nil {
			i := slices.IndexFunc(h.GetBucket(), func(b *dto.Bucket) bool { return b.GetUpperBound() == 0.05 })
			require.GreaterOrEqual(t, i, 0, "the bound of the alert in the README of promwheel")
		}
		slices.Sort(labels)
		kind := strings.ToLower(family.GetType().String())
		got = append(got, family.GetName()+" "+kind+" "+strings.Join(labels, ", "))
	}
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			got = append(got, m.Name+" "+m.Unit)
		}
	}
	require.ElementsMatch(t, want, got)
}
