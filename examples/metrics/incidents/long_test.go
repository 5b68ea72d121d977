package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/keyed"
	"github.com/hashedwheel/hashedwheel/metrics/promwheel"
	"github.com/hashedwheel/hashedwheel/wheeldebug"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// lasts is how long a program runs, in the time of a bubble, and scraped is the time from one scrape to the next.
const (
	lasts   = 640 * time.Second
	scraped = 15 * time.Second
)

// A sight is what an operator has after a program has run for ten minutes: the log, the page, and the metrics.
type sight struct {
	log, page string
	series    map[string][]string // the values of each series, one for each scrape
}

// watch runs a program for ten minutes.
func watch(t *testing.T, play func() *hashedwheel.Timer) (s sight) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	log.SetFlags(0)
	defer log.SetOutput(os.Stderr)
	s.series = make(map[string][]string)
	synctest.Test(t, func(t *testing.T) {
		never = make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		program = ctx
		timer := play()
		registry := prometheus.NewRegistry()
		require.NoError(t, promwheel.Register(registry, timer))
		page := wheeldebug.Handler(timer)
		time.Sleep(3700 * time.Millisecond) // so that no scrape comes just when much is due
		for n := range int(lasts / scraped) {
			s.scrape(t, registry, n)
			time.Sleep(scraped)
			synctest.Wait()
		}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		s.page = regexp.MustCompile(` +`).ReplaceAllString(w.Body.String(), " ")
		s.log = logged.String()
		timer.Stop()
		close(never)
		cancel()
		time.Sleep(10 * time.Minute) // until all tasks have ended
	})
	return s
}

// scrape adds the values of the metrics in the alerts, as scrape n.
func (s *sight) scrape(t *testing.T, registry *prometheus.Registry, n int) {
	families, err := registry.Gather()
	require.NoError(t, err)
	add := func(name, labels string, value float64) {
		name += "{" + labels + "}"
		for len(s.series[name]) < n {
			s.series[name] = append(s.series[name], "_")
		}
		s.series[name] = append(s.series[name], fmt.Sprint(value))
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			all, name := strings.Join(labels, ", "), family.GetName()
			h := m.GetHistogram()
			if h == nil {
				add(name, all, m.GetCounter().GetValue()+m.GetGauge().GetValue()) // one of them is nil, which counts as 0
				continue
			}
			add(name+"_count", all, float64(h.GetSampleCount()))
			for _, b := range h.GetBucket() {
				if b.GetUpperBound() == 0.05 {
					add(name+"_bucket", `le="0.05", `+all, float64(b.GetCumulativeCount()))
				}
			}
		}
	}
}

// checkAlerts checks with promtool that the alerts are raised at the end of the series, and no others.
func (s *sight) checkAlerts(t *testing.T, raised ...string) {
	if os.Getenv("PROMWHEEL_PROMETHEUS") != "1" {
		t.Log("the alerts are checked with PROMWHEEL_PROMETHEUS=1")
		return
	}
	rules, err := filepath.Abs("../../../metrics/alerts.yml")
	require.NoError(t, err)
	text, err := os.ReadFile(rules)
	require.NoError(t, err)
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%q]\ntests:\n  - interval: %v\n    input_series:\n", rules, scraped)
	for name, values := range s.series {
		fmt.Fprintf(&b, "      - {series: '%s', values: %s}\n", name, strings.Join(values, " "))
	}
	fmt.Fprint(&b, "    alert_rule_test:\n")
	found := 0
	for _, m := range regexp.MustCompile(`alert: (\w+)(?s:.*?)summary: (.*)`).FindAllStringSubmatch(string(text), -1) {
		fmt.Fprintf(&b, "      - alertname: %s\n        eval_time: %v\n        exp_alerts: [", m[1], lasts-scraped)
		for _, alert := range raised {
			if alert == m[1] {
				found++
				fmt.Fprintf(&b, "{exp_labels: {timer: rpc}, exp_annotations: {summary: %q}}", strings.ReplaceAll(m[2], "{{ $labels.timer }}", "rpc"))
			}
		}
		fmt.Fprint(&b, "]\n")
	}
	require.Len(t, raised, found)
	file := filepath.Join(t.TempDir(), "test.yml")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	out, err := exec.Command("promtool", "test", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Each of these incidents would be silent without its line, row of the page and alert.
func TestLongIncidents(t *testing.T) {
	const here = `github.com/hashedwheel/hashedwheel/examples/metrics/incidents[.]`
	for name, want := range map[string]struct {
		log    string // a regular expression of all of the log
		page   string
		alerts []string
	}{
		"hang": {
			log:  `^(WARN hashedwheel: more and more calls do not return; most are incidents.lock timer=rpc calls=\d+ most=\d+ longest=\S+ running=\d+\n){5}$`,
			page: `; running 10[45]\d\d, (?s:.*)\n 10[45]\d\d 9m\S+ 10m\S+ ago ` + here + `lock\n`, alerts: []string{"HashedwheelHangs"}},
		"next": {
			log:  `^WARN hashedwheel: calls that should return soon do not return; most are \*main.cron.Next timer=rpc calls=40 most=40 longest=1m\S+ running=40\n$`,
			page: `; running 40, (?s:.*)\n 40 10m\S+ 10m\S+ ago \*` + here + `cron.Next \(Next\) \(repeating\)\n`, alerts: []string{"HashedwheelStuck"}},
		"canceled": {
			log: `^$`, page: `; running [89]\d, (?s:.*)\n [89]\d 0s in \S+ \*` + here + `transfer.Canceled \(Canceled\)\n`},
		"keys": {
			log:  `^(WARN hashedwheel: keys wait for WithConcurrency\(4\): as many calls of expired are in progress timer=rpc waiting=\d+ late=\S+\n){9,11}$`,
			page: `; running 4, .*\nkeys that wait for keyed.WithConcurrency 6[23]\d{3}\n(?s:.*)\n 4 \S+ 10m\S+ ago keyed.Map\[int,int\]\n`, alerts: []string{"HashedwheelKeysWait"}},
		"leak": {log: `^$`, page: `\n 30[01]\d 100.0 % \d 30[01]\d 0 0 0 in \d+ms in (1m0s|59\S+s) ` + here + `noAnswer\n`},
		"panic-flood": {
			log: `^(ERROR hashedwheel: task panicked .* stack=".*broken.*\n){2}ERROR hashedwheel: task panicked .* times=\d+ stack=".*broken .*\n` +
				`(ERROR hashedwheel: task panicked .* stack=".*broken(Too)? .*\n){9,11}$`,
			page: ` 3[01]\d{3} \S+ panics\n`, alerts: []string{"HashedwheelPanics"}},
		"submit-panics": {
			log:  `^ERROR hashedwheel: executor panicked .* stack=".*broken.*\n(ERROR hashedwheel: executor panicked .* times=\d+ stack=".*broken .*\n){9,11}$`,
			page: ` 3[01]\d{3} \S+ panics\n`, alerts: []string{"HashedwheelPanics", "HashedwheelUnsubmitted"}},
		"waits": {
			log:  `^(WARN hashedwheel: calls that should return soon do not return; most are incidents.replace timer=rpc calls=\d+ most=\d+ longest=\S+ running=\d+\n){10}$`,
			page: `; running 1200, (?s:.*)\n 1200 \S+ 10m\S+ ago ` + here + `replace\n`, alerts: []string{"HashedwheelHangs", "HashedwheelStuck"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := watch(t, find(name).play)
			require.Regexp(t, want.log, s.log)
			require.Regexp(t, want.page, s.page)
			s.checkAlerts(t, want.alerts...)
		})
	}
}

// Programs in good order have no line in the log, and no alert, in ten minutes under load.
func TestHealthyPrograms(t *testing.T) {
	for name, play := range map[string]func() *hashedwheel.Timer{
		"requests": requests, "long by design": longByDesign, "bursts": bursts,
	} {
		t.Run(name, func(t *testing.T) {
			s := watch(t, play)
			require.Empty(t, s.log)
			s.checkAlerts(t)
		})
	}
}

// requests makes a hundred requests a second, each with a timeout. Of a hundred, 98 have an answer. A job runs each ten seconds.
func requests() *hashedwheel.Timer {
	timer := newTimer()
	must(timer.Schedule(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { time.Sleep(2 * time.Second) }), every10s{}))
	go func() {
		for i := 0; !timer.IsStopped(); i++ {
			to, err := timer.AfterFunc(30*time.Second, func() { time.Sleep(5 * time.Millisecond) })
			if err == nil && i%50 != 0 {
				timer.AfterFunc(rand.N(200*time.Millisecond), func() { to.Cancel() })
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return timer
}

type every10s struct{}

func (every10s) Next(prev time.Time) time.Time {
	return prev.Truncate(10 * time.Second).Add(10 * time.Second)
}

// longByDesign serves a connection in each task: one comes each second, and stays for two to four minutes. Twenty tasks wait for work
// all the time.
func longByDesign() *hashedwheel.Timer {
	timer := newTimer()
	for range 20 {
		must(timer.AfterFunc(0, func() { <-never }))
	}
	go eachFor(timer, time.Second, func() { time.Sleep(2*time.Minute + rand.N(2*time.Minute)) })
	return timer
}

// bursts has jobs that begin together at each full minute, with a limit, and sessions that expire together.
func bursts() *hashedwheel.Timer {
	timer := newTimer(hashedwheel.WithMaxConcurrency(50))
	for range 200 {
		must(timer.ScheduleAtFixedRate(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { time.Sleep(10 * time.Millisecond) }), 0, time.Minute))
	}
	sessions := keyed.New(timer, func(int, int) { time.Sleep(time.Millisecond) }, keyed.WithConcurrency(4))
	go func() {
		for i := 0; !timer.IsStopped(); i++ {
			for k := range 500 {
				sessions.Set(k, i, 5*time.Second)
			}
			time.Sleep(10 * time.Second)
		}
	}()
	return timer
}
