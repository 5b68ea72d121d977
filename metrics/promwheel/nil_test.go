package promwheel

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

// A nil or zero timer panics at once, not when it is collected.
func TestNilAndZeroTimer(t *testing.T) {
	registry := prometheus.NewRegistry()
	for name, use := range map[string]func(timer *hashedwheel.Timer){
		"NewCollector": func(timer *hashedwheel.Timer) { NewCollector(timer) },
		"Register":     func(timer *hashedwheel.Timer) { Register(registry, timer) },
	} {
		require.PanicsWithValue(t, "promwheel: "+name+": nil Timer", func() { use(nil) })
		require.PanicsWithValue(t, "hashedwheel: the Timer was not made by New", func() { use(new(hashedwheel.Timer)) }, name)
	}
}
