package otelwheel

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// In Prometheus figures have the names and labels that package promwheel gives them.
func TestFigures(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	exporter, err := prometheusexporter.New(prometheusexporter.WithRegisterer(registry), prometheusexporter.WithoutScopeInfo(),
		prometheusexporter.WithoutTargetInfo())
	require.NoError(t, err)
	provider := metric.NewMeterProvider(metric.WithReader(exporter))
	defer func() { require.NoError(t, provider.Shutdown(t.Context())) }()
	held := 3.0
	figures := func(yield func(name, help string, counter bool, value float64)) {
		yield("held", "Deadlines that are held.", false, held)
		yield("handled", "Deadlines that were handled.", true, 2*held)
	}
	for _, store := range []string{"orders", "mails"} {
		registration, err := RegisterFigures(provider, "deadlines", attribute.String("store", store), figures)
		require.NoError(t, err)
		if store == "mails" {
			require.NoError(t, registration.Unregister())
		}
	}
	held = 4
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP deadlines_handled_total Deadlines that were handled.
# TYPE deadlines_handled_total counter
deadlines_handled_total{store="orders"} 8
# HELP deadlines_held Deadlines that are held.
# TYPE deadlines_held gauge
deadlines_held{store="orders"} 4
`)))
}
