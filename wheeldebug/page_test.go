package wheeldebug

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

// secret is a field of a task, which no page has.
const secret = "tell nobody"

type call struct{ id string }

func (*call) Run(*hashedwheel.Timeout) {}
func (*call) String() string           { return secret }

type generic[T any] struct{}

func (generic[T]) Run(*hashedwheel.Timeout) {}

const here = "github.com/hashedwheel/hashedwheel/wheeldebug."

// Two tasks hang at the limit. Both forms of the page say what is due and waits, and what else is pending.
func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, hashedwheel.WithName("rpc"), hashedwheel.WithMaxConcurrency(2), hashedwheel.WithMaxPending(9999))
		h := Handler(timer, newTimer(t))
		release := make(chan struct{})
		defer close(release)
		waits := func() { <-release }
		start := time.Now()
		check := func(_ *hashedwheel.Timeout, err error) {
			t.Helper()
			require.NoError(t, err)
		}
		for range 100 {
			check(timer.AfterFunc(time.Second, waits))
		}
		pass(time.Second)
		for i := range 20 {
			check(timer.NewTimeout(&call{secret}, time.Duration(1+i)*4*time.Second))
		}
		check(timer.NewTimeout(generic[int]{}, 5*time.Minute))
		check(timer.NewTimeout(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {}), time.Hour))
		check(timer.ScheduleAtFixedRate(&call{secret}, 30*time.Minute, time.Minute))
		check(hashedwheel.NewGroup(timer).Schedule(&call{secret}, hashedwheel.Every(2*time.Hour)))
		pass(5 * time.Second)

		p := getJSON(t, h)
		require.Len(t, p.Timers, 2)
		require.Equal(t, "hashedwheel.Timer(0 pending, tick 100ms, wheel size 512, levels 1)", p.Timers[1].Timer)
		tp := p.Timers[0]
		require.Equal(t, "rpc", tp.Name)
		require.Equal(t, 100*time.Millisecond, tp.Tick)
		require.Equal(t, 98+20+4, tp.Stats.Pending)
		require.Equal(t, 98+1, tp.Stats.Due)
		require.Equal(t, 2, tp.Stats.Running)
		require.Equal(t, 6*time.Second, tp.Since.Duration)
		require.EqualValues(t, 124, tp.Since.Accepted)
		at := func(d time.Duration) time.Time { return start.Add(time.Second + d) }
		want := []row{
			{Task: here + "TestPage.func1.1", Pending: 98, Due: 98, Next: at(0), Last: at(0)},
			{Task: "*" + here + "call", Pending: 20, Due: 1, Minute: 15, TenMinutes: 4,
				Next: at(4 * time.Second), Last: at(80 * time.Second)},
			{Task: "*" + here + "call", Repeating: true, Pending: 2, Hour: 1, Later: 1,
				Next: at(30 * time.Minute), Last: at(2 * time.Hour)},
			{Task: here + "TestPage.func1.3", Pending: 1, Hour: 1, Next: at(time.Hour), Last: at(time.Hour)},
			{Task: here + "generic[int]", Pending: 1, TenMinutes: 1, Next: at(5 * time.Minute), Last: at(5 * time.Minute)},
		}
		for i := range tp.Tasks {
			tp.Tasks[i].Next, tp.Tasks[i].Last = tp.Tasks[i].Next.Local(), tp.Tasks[i].Last.Local()
		}
		require.Equal(t, want, tp.Tasks)

		text := get(t, h, "http://10.0.0.7:6060/debug/hashedwheel")
		t.Log("\n" + text)
		lines := regexp.MustCompile(` +`).ReplaceAllString(text, " ")
		for _, want := range []string{
			"hashedwheel.Timer(rpc, 122 pending, tick 100ms, wheel size 512, levels 1, max pending 9999, max concurrency 2)\n" +
				"pending 122, of these due and not started 99; running 2, ",
			"\n 124 20.7 accepted\n",
			"\n 2 0.3 expired\n",
			"\n 98 80.3 % 98 0 0 0 0 5s ago 5s ago " + here + "TestPage.func1.1\n",
			"\n 20 16.4 % 1 15 4 0 0 1s ago in 1m15s *" + here + "call\n",
			"\n 2 1.6 % 0 0 0 1 1 in 29m55s in 1h59m55s *" + here + "call (repeating)\n",
			" http://10.0.0.7:6060/debug/pprof/heap\n",
		} {
			require.Contains(t, lines, want)
		}
		require.NotContains(t, text, secret)
		require.NotContains(t, get(t, h, "/?format=json"), secret)

		pass(4 * time.Second)
		timer.Stop()
		p = getJSON(t, h)
		require.True(t, p.Timers[0].Stopped)
		require.Empty(t, p.Timers[0].Tasks)
		require.Equal(t, 4*time.Second, p.Timers[0].Since.Duration)
		require.EqualValues(t, 122, p.Timers[0].Since.Returned)
		require.Zero(t, p.Timers[0].Since.Accepted)
	})
}

// Tasks of the library say what they are.
func TestTasksOfTheLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		ctx, cancel := context.WithCancel(t.Context())
		go timer.Sleep(ctx, time.Hour)
		pass(time.Second)
		rows := getJSON(t, Handler(timer)).Timers[0].Tasks
		require.Len(t, rows, 1)
		require.Equal(t, "hashedwheel.Timer.Sleep", rows[0].Task)
		cancel()
	})
}

// A host that a shell would take for more than a host is not among the commands.
func TestHostIsPlain(t *testing.T) {
	for host, want := range map[string]string{
		"localhost:6060": "localhost:6060", "[::1]:80": "[::1]:80", "a'; rm -rf ~; '": "HOST", "": "HOST", "$(reboot)": "HOST",
	} {
		text := string(writeText(&page{}, host))
		require.Equal(t, 2, strings.Count(text, "http://"+want+"/debug/pprof/"), host)
	}
}

func TestUntil(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-5_018 * time.Millisecond: "5.02s ago", 0: "0s ago", time.Second: "in 1s", 9 * day: "in 216h0m0s", 30 * day: "in 30 days",
		1<<63 - 1: "never",
	} {
		require.Equal(t, want, until(d))
	}
}
