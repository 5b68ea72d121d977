package promwheel

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// dashboard is the part of metrics/grafana.json that this test reads.
type dashboard struct {
	Title  string
	Panels []struct {
		ID      int
		Title   string
		Targets []struct{ RefID, Expr, LegendFormat string }
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      any // a string, or an object
		}
	}
}

var (
	metricName = regexp.MustCompile(`hashedwheel_\w+`)
	selector   = regexp.MustCompile(`hashedwheel_\w+(\{[^}]*\})?`) // with the labels that it matches
	labelName  = regexp.MustCompile(`\{\{(\w+)\}\}|by \(([\w, ]+)\)|(\w+)=~`)
	variable   = regexp.MustCompile(`\$(\w+)`)
)

// Every metric, label and variable that the dashboard names exists. The dashboard shows every metric. Each of its
// expressions selects by the job, the instance and the timer.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../grafana.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	require.Equal(t, "hashedwheel", d.Title)

	timer := newTimer(t)
	_, err = timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return timer.Stats().Levels != nil }, 10*time.Second, time.Millisecond)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(timer))
	series := make(map[string]string)                                   // the name of the family, by the name of a series
	known := map[string]bool{"job": true, "instance": true, "le": true} // labels; Prometheus adds the first two
	shown := make(map[string]bool)                                      // families
	for name, family := range scrape(t, registry) {
		shown[name] = false
		series[name] = name
		if family.GetType() == dto.MetricType_HISTOGRAM {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				series[name+suffix] = name
			}
			delete(series, name) // a classic histogram has no such series
		}
		for _, m := range family.GetMetric() {
			for label := range labels(m) {
				known[label] = true
			}
		}
	}

	variables := map[string]bool{"__rate_interval": true, "__all": true} // Grafana's own
	for _, v := range d.Templating.List {
		variables[v.Name] = true
	}
	names := 0
	look := func(expr, where string) {
		for _, name := range metricName.FindAllString(expr, -1) {
			require.Contains(t, series, name, where)
			shown[series[name]] = true
			names++
		}
		for _, match := range labelName.FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(match[1]+match[2]+match[3], ", ") {
				require.Contains(t, known, label, where)
			}
		}
		for _, match := range variable.FindAllStringSubmatch(expr, -1) {
			require.Contains(t, variables, match[1], where)
		}
	}
	for _, v := range d.Templating.List {
		query, err := json.Marshal(v.Query)
		require.NoError(t, err)
		look(string(query), v.Name)
	}
	ids := make(map[int]bool)
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "two panels have the id %d", p.ID)
		ids[p.ID] = true
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.Equal(t, strings.Count(target.Expr, "("), strings.Count(target.Expr, ")"), p.Title)
			selectors := selector.FindAllStringSubmatch(target.Expr, -1)
			require.NotEmpty(t, selectors, p.Title)
			for _, s := range selectors {
				require.Equal(t, `{job=~"$job", instance=~"$instance", timer=~"$timer"}`, s[1], p.Title)
			}
			look(target.Expr, p.Title)
			look(target.LegendFormat, p.Title)
		}
	}
	require.Greater(t, names, len(shown))
	for name, is := range shown {
		require.True(t, is, "no panel shows %s", name)
	}
}
