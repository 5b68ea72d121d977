//go:build unix

package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A gate decides whether the tests in a browser run. They take a minute and need Chromium and
// chromedriver, so they do not run just because a browser is installed.
type gate struct {
	asked            string // WHEELVIEW_BROWSER
	ci               string // CI
	short            bool   // -short
	chromium, driver string // their paths, empty if there is none
}

// decide returns why the tests are skipped, or why they fail. If both results are empty, the tests run.
func (g gate) decide() (skip, fail string) {
	switch {
	case g.asked == "1":
	case g.asked != "":
		return "WHEELVIEW_BROWSER is not 1", ""
	case g.ci != "true":
		return "takes a minute in a browser: runs with WHEELVIEW_BROWSER=1, or with CI=true if chromedriver is in PATH", ""
	case g.short:
		return "takes a minute in a browser: runs without -short, or with WHEELVIEW_BROWSER=1", ""
	case g.driver == "":
		return "CI=true, but chromedriver is not in PATH: WHEELVIEW_BROWSER=1 makes this an error", ""
	}
	if g.chromium == "" || g.driver == "" {
		return "", "chromium and chromedriver must be in PATH to test the page in a browser (on Debian: apt-get install chromium chromium-driver)"
	}
	return "", ""
}

// findBrowser returns the paths of Chromium and chromedriver, unless the test is skipped or fails.
func findBrowser(t *testing.T) (chromium, driver string) {
	t.Helper()
	g := gate{
		asked: os.Getenv("WHEELVIEW_BROWSER"), ci: os.Getenv("CI"), short: testing.Short(),
		chromium: lookPath("chromium", "chromium-browser", "google-chrome"), driver: lookPath("chromedriver"),
	}
	skip, fail := g.decide()
	if fail != "" {
		require.FailNow(t, fail)
	}
	if skip != "" {
		t.Skip(skip)
	}
	return g.chromium, g.driver
}

// lookPath returns the path of the first of these programs that is installed, or "".
func lookPath(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func TestGate(t *testing.T) {
	here := gate{chromium: "/usr/bin/chromium", driver: "/usr/bin/chromedriver"}
	for _, tt := range []struct {
		name       string
		change     func(*gate)
		skip, fail string // empty: none
	}{
		{"a browser alone", func(g *gate) {}, "WHEELVIEW_BROWSER=1", ""},
		{"asked for", func(g *gate) { g.asked = "1" }, "", ""},
		{"asked for with -short", func(g *gate) { g.asked, g.short = "1", true }, "", ""},
		{"asked for, no driver", func(g *gate) { g.asked, g.driver = "1", "" }, "", "apt-get install"},
		{"asked for, no chromium", func(g *gate) { g.asked, g.chromium = "1", "" }, "", "apt-get install"},
		{"declined in CI", func(g *gate) { g.asked, g.ci = "0", "true" }, "is not 1", ""},
		{"CI", func(g *gate) { g.ci = "true" }, "", ""},
		{"CI with -short", func(g *gate) { g.ci, g.short = "true", true }, "-short", ""},
		{"CI, no driver", func(g *gate) { g.ci, g.driver = "true", "" }, "not in PATH", ""},
		{"CI, no chromium", func(g *gate) { g.ci, g.chromium = "true", "" }, "", "apt-get install"},
		{"CI=false", func(g *gate) { g.ci = "false" }, "CI=true", ""},
	} {
		g := here
		tt.change(&g)
		skip, fail := g.decide()
		for _, c := range [][2]string{{tt.skip, skip}, {tt.fail, fail}} {
			require.Equal(t, c[0] == "", c[1] == "", "%s: %q", tt.name, c[1])
			require.Contains(t, c[1], c[0], tt.name)
		}
	}
}
