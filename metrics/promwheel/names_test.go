package promwheel

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// The table in README.md has exactly the metrics, with their types and labels. The test of package otelwheel
// compares the table with its own metrics.
func TestNamesInReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var want, got []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `hashedwheel.") {
			cells := strings.Split(strings.ReplaceAll(line, "`", ""), " | ")
			require.Len(t, cells, 6, line)
			want = append(want, strings.Join(cells[2:5], " "))
		}
	}
	timer := newTimer(t, hashedwheel.WithName("rpc"))
	_, err = timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return timer.Stats().Levels != nil }, 10*time.Second, time.Millisecond)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(timer))
	for name, family := range scrape(t, registry) {
		names := slices.Sorted(maps.Keys(labels(family.GetMetric()[0])))
		kind := strings.ToLower(family.GetType().String())
		got = append(got, name+" "+kind+" "+strings.Join(names, ", "))
	}
	require.ElementsMatch(t, want, got)
}

// Each bound in an alert of README.md is a value of the label le, to the digit.
func TestBoundsInReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(newTimer(t)))
	var bounds []string
	for _, b := range scrape(t, registry)["hashedwheel_lateness_seconds"].GetMetric()[0].GetHistogram().GetBucket() {
		bounds = append(bounds, strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))
	}
	inReadme := regexp.MustCompile(`le="([0-9.]+)"`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, inReadme)
	for _, match := range inReadme {
		require.Contains(t, bounds, match[1])
	}
}
