package deadlines

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Store is what the adapters for Prometheus and OpenTelemetry take.
var _ interface {
	Name() string
	Figures(yield func(name, help string, counter bool, value float64))
} = (*Store)(nil)

var (
	figureName = regexp.MustCompile(`deadlines_\w+`)
	selected   = regexp.MustCompile(`deadlines_\w+(\{[^}]*\})?`)
)

// figureNames returns the names of the figures, as the adapters for Prometheus and OpenTelemetry give them to Prometheus.
func figureNames() map[string]bool {
	names := make(map[string]bool)
	s := &Store{}
	s.clock.wall = s.clock.now
	s.Figures(func(name, _ string, counter bool, _ float64) {
		if counter {
			name += "_total"
		}
		names["deadlines_"+name] = false
	})
	return names
}

// The dashboard in metrics shows each figure, and no other one. Each expression selects by job, instance and store.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../metrics/deadlines-grafana.json")
	require.NoError(t, err)
	var dashboard struct {
		Title  string
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct{ List []struct{ Name string } }
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.Equal(t, "deadlines", dashboard.Title)
	var variables []string
	for _, v := range dashboard.Templating.List {
		variables = append(variables, v.Name)
	}
	require.Equal(t, []string{"datasource", "job", "instance", "store"}, variables)
	shown := figureNames()
	ids := make(map[int]bool)
	for _, p := range dashboard.Panels {
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.Equal(t, strings.Count(target.Expr, "("), strings.Count(target.Expr, ")"), p.Title)
			require.Contains(t, target.LegendFormat, "{{store}}", p.Title)
			found := selected.FindAllStringSubmatch(target.Expr, -1)
			require.NotEmpty(t, found, p.Title)
			for _, f := range found {
				require.Equal(t, `{job=~"$job", instance=~"$instance", store=~"$store"}`, f[1], p.Title)
			}
			for _, name := range figureName.FindAllString(target.Expr, -1) {
				require.Contains(t, shown, name, p.Title)
				shown[name] = true
			}
		}
	}
	for name, is := range shown {
		require.True(t, is, "no panel shows %s", name)
	}
}

// The alerts in metrics are about figures that exist. The README has their expressions.
func TestAlerts(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Join(strings.Fields(string(text)), " ")
	}
	names := figureNames()
	readme := read("README.md")
	exprs := regexp.MustCompile(`expr: \| (.*?) for:`).FindAllStringSubmatch(read("../metrics/deadlines-alerts.yml"), -1)
	require.Len(t, exprs, 10)
	for _, expr := range exprs {
		require.Contains(t, readme, "`"+expr[1]+"`")
		for _, name := range figureName.FindAllString(expr[1], -1) {
			require.Contains(t, names, name)
		}
	}
}
