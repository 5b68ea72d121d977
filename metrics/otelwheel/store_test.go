package otelwheel

import (
	"strings"
	"testing"

	"github.com/hashedwheel/hashedwheel"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

type fakeStore struct {
	name string
	held float64
}

func (s *fakeStore) Name() string { return s.name }

func (s *fakeStore) Figures(yield func(name, help string, counter bool, value float64)) {
	yield("held", "Deadlines that are held.", false, s.held)
	yield("handled", "Deadlines that were handled.", true, 2*s.held)
}

// In Prometheus the figures of a store have the names and labels that package promwheel gives them. A provider takes one
// store of each name, and another one after the first is unregistered. A timer may have the same name.
func TestStore(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	exporter, err := prometheusexporter.New(prometheusexporter.WithRegisterer(registry), prometheusexporter.WithoutScopeInfo(),
		prometheusexporter.WithoutTargetInfo())
	require.NoError(t, err)
	provider := metric.NewMeterProvider(metric.WithReader(exporter))
	defer func() { require.NoError(t, provider.Shutdown(t.Context())) }()
	orders, mails := &fakeStore{"orders", 3}, &fakeStore{"mails", 3}
	registration, err := RegisterStore(provider, mails)
	require.NoError(t, err)
	_, err = RegisterStore(provider, orders)
	require.NoError(t, err)
	_, err = RegisterStore(provider, &fakeStore{name: "orders"})
	require.EqualError(t, err, `otelwheel: registering a store with the name "orders": the provider has a store with this name`)
	mails.held, orders.held = 4, 5
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP deadlines_handled_total Deadlines that were handled.
# TYPE deadlines_handled_total counter
deadlines_handled_total{store="mails"} 8
deadlines_handled_total{store="orders"} 10
# HELP deadlines_held Deadlines that are held.
# TYPE deadlines_held gauge
deadlines_held{store="mails"} 4
deadlines_held{store="orders"} 5
`)))
	require.NoError(t, registration.Unregister())
	_, err = RegisterStore(provider, &fakeStore{"mails", 6})
	require.NoError(t, err)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP deadlines_held Deadlines that are held.
# TYPE deadlines_held gauge
deadlines_held{store="mails"} 6
deadlines_held{store="orders"} 5
`), "deadlines_held"))
	_, err = Register(provider, newTimer(t, hashedwheel.WithName("mails")))
	require.NoError(t, err)
}
