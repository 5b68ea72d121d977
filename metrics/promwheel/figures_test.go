package promwheel

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestFigures(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	held := 3.0
	figures := func(yield func(name, help string, counter bool, value float64)) {
		yield("held", "Deadlines that are held.", false, held)
		yield("handled", "Deadlines that were handled.", true, 2*held)
	}
	register := func(store string) error {
		return RegisterFigures(registry, "deadlines", prometheus.Labels{"store": store}, figures)
	}
	require.NoError(t, register("orders"))
	require.NoError(t, register("mails"))
	held = 4
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP deadlines_handled_total Deadlines that were handled.
# TYPE deadlines_handled_total counter
deadlines_handled_total{store="mails"} 8
deadlines_handled_total{store="orders"} 8
# HELP deadlines_held Deadlines that are held.
# TYPE deadlines_held gauge
deadlines_held{store="mails"} 4
deadlines_held{store="orders"} 4
`)))
	err := register("orders")
	require.ErrorContains(t, err, `the figures "deadlines" with the labels map[store:orders]`)
	require.ErrorAs(t, err, new(prometheus.AlreadyRegisteredError))
}
