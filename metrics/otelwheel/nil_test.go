package otelwheel

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/hashedwheel/hashedwheel"
)

// A nil or zero timer panics at once, not when it is observed.
func TestNilAndZeroTimer(t *testing.T) {
	register := func(timer *hashedwheel.Timer) func() {
		return func() { Register(noop.NewMeterProvider(), timer) }
	}
	require.PanicsWithValue(t, "otelwheel: Register: nil Timer", register(nil))
	require.PanicsWithValue(t, "hashedwheel: the Timer was not made by New", register(new(hashedwheel.Timer)))
}
