package promwheel

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
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

// Two stores in one registry have the figures that they have at the scrape. A registry takes one store of each name, and
// another one after the first is unregistered.
func TestStore(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	orders, mails := &fakeStore{"orders", 3}, &fakeStore{"mails", 3}
	collector := NewStoreCollector(orders)
	require.NoError(t, registry.Register(collector))
	require.NoError(t, registry.Register(NewStoreCollector(mails)))
	orders.held = 4
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP deadlines_handled_total Deadlines that were handled.
# TYPE deadlines_handled_total counter
deadlines_handled_total{store="mails"} 6
deadlines_handled_total{store="orders"} 8
# HELP deadlines_held Deadlines that are held.
# TYPE deadlines_held gauge
deadlines_held{store="mails"} 3
deadlines_held{store="orders"} 4
`)))
	again := NewStoreCollector(&fakeStore{name: "orders"})
	require.ErrorAs(t, registry.Register(again), new(prometheus.AlreadyRegisteredError))
	require.True(t, registry.Unregister(collector))
	require.NoError(t, registry.Register(again))
}
