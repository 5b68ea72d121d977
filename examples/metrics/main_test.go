package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program serves metrics that change while it runs. Ctrl-C ends it, and it prints the totals.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"-listen", "127.0.0.1:0", "-rate", "5000"}, write)
		write.Close()
	}()
	line := make([]byte, 200)
	n, err := read.Read(line)
	require.NoError(t, err)
	address, debug, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(line[:n])), "serving "), " and ")
	require.True(t, ok, "%s", line[:n])
	defer http.DefaultClient.CloseIdleConnections()

	canceled := func() float64 {
		text := get(t, address)
		for _, want := range []string{`hashedwheel_timeouts_pending{timer="rpc"}`,
			`hashedwheel_lateness_seconds_bucket{timer="retry",le="+Inf"}`, "go_goroutines"} {
			require.Contains(t, text, want)
		}
		return number(t, text, `hashedwheel_timeouts_canceled_total{timer="rpc"}`)
	}
	require.Eventually(t, func() bool { return canceled() > 0 }, 10*time.Second, 10*time.Millisecond)
	before := canceled()
	require.Eventually(t, func() bool { return canceled() > before }, 10*time.Second, 10*time.Millisecond)
	profile := strings.Replace(address, "metrics", "debug/pprof/goroutine?debug=1", 1)
	require.Contains(t, get(t, profile), "goroutine profile")

	require.Regexp(t, `(?m)^ +\d+ +100\.0 % .*metrics\.load\.func\d$`, get(t, debug))
	var page struct {
		Timers []struct {
			Name  string
			Tasks []struct {
				Task    string
				Pending int
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(get(t, debug+"?format=json")), &page))
	require.Equal(t, "retry", page.Timers[1].Name)
	require.Positive(t, page.Timers[0].Tasks[0].Pending)
	require.Contains(t, page.Timers[0].Tasks[0].Task, "metrics.load.func")

	cancel()
	sums, err := io.ReadAll(read)
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Regexp(t, `(?m)^rpc +accepted [1-9]\d*, expired \d+, canceled [1-9]\d*, returned \d+; lateness: .*p99 `,
		string(sums))
	require.Regexp(t, `(?m)^retry +accepted [1-9]`, string(sums))
}

func get(t *testing.T, url string) string {
	t.Helper()
	reply, err := http.Get(url)
	require.NoError(t, err)
	defer reply.Body.Close()
	require.Equal(t, http.StatusOK, reply.StatusCode)
	text, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	return string(text)
}

// number returns the value of a series.
func number(t *testing.T, text, series string) float64 {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (.*)$`).FindStringSubmatch(text)
	require.NotNil(t, match, "no %s in\n%s", series, text)
	v, err := strconv.ParseFloat(match[1], 64)
	require.NoError(t, err)
	return v
}
