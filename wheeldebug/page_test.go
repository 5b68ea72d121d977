package wheeldebug

import (
	"context"
	"net"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/hashedwheel/hashedwheel/idle"
)

// secret is a field of a task, which no page has.
const secret = "tell nobody"

type call struct {
	id    string
	pause time.Duration
}

func (c *call) Run(*hashedwheel.Timeout) { time.Sleep(c.pause) }
func (*call) String() string             { return secret }

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
			check(timer.NewTimeout(&call{id: secret}, time.Duration(1+i)*4*time.Second))
		}
		check(timer.NewTimeout(generic[int]{}, 5*time.Minute))
		check(timer.NewTimeout(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {}), time.Hour))
		check(timer.ScheduleAtFixedRate(&call{id: secret}, 30*time.Minute, time.Minute))
		check(hashedwheel.NewGroup(timer).Schedule(&call{id: secret}, hashedwheel.Every(2*time.Hour)))
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

		require.Equal(t, []runs{{Task: here + "TestPage.func1.1", Running: 2, Due: at(0)}}, localDue(tp.Running))

		text := get(t, h, "http://10.0.0.7:6060/debug/hashedwheel")
		t.Log("\n" + text)
		lines := regexp.MustCompile(` +`).ReplaceAllString(text, " ")
		for _, want := range []string{
			"hashedwheel.Timer(rpc, 122 pending, tick 100ms, wheel size 512, levels 1, max pending 9999, max concurrency 2)\n" +
				"pending 122, of these due and not started 99; running 2, ",
			"\n 124 20.7 accepted\n",
			"\n 2 0.3 expired\n",
			"\n 2 0s 5s ago " + here + "TestPage.func1.1\n",
			"\n 98 80.3 % 98 0 0 0 0 5s ago 5s ago " + here + "TestPage.func1.1\n",
			"\n 20 16.4 % 1 15 4 0 0 1s ago in 1m15s *" + here + "call\n",
			"\n 2 1.6 % 0 0 0 1 1 in 29m55s in 1h59m55s *" + here + "call (repeating)\n",
			" 'http://10.0.0.7:6060/debug/pprof/heap?gc=1'\n",
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
		require.Equal(t, []runs{{Task: here + "TestPage.func1.1", Running: 2, AtLeast: 4 * time.Second, Due: at(0)}},
			localDue(p.Timers[0].Running), "the tasks still hang")
	})
}

func localDue(all []runs) []runs {
	for i := range all {
		all[i].Due = all[i].Due.Local()
	}
	return all
}

// A page says how long a run has been in progress, at least and at most. The next run of the same timeout on the same runner
// is another run. What has ended is not there, and the handler forgets it.
func TestRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, hashedwheel.WithTick(time.Second))
		h := Handler(timer).(*handler)
		start := time.Now()
		for _, late := range []time.Duration{0, 5 * time.Second} { // two of one kind
			_, err := timer.AfterFunc(10*time.Second+late, func() { time.Sleep(20 * time.Second) })
			require.NoError(t, err)
		}
		// Runs of 4 s, each 2 s: so the next one always follows at once.
		slow, err := timer.ScheduleAtFixedRate(&call{pause: 4 * time.Second}, 10*time.Second, 2*time.Second)
		require.NoError(t, err)
		at := func(seconds time.Duration) time.Time { return start.Add(seconds * time.Second) }
		of := func(running int, atLeast, due time.Duration) runs {
			return runs{Task: here + "TestRunning.func1.1", Running: running, AtLeast: atLeast * time.Second, Due: at(due)}
		}
		rate := func(atLeast, due time.Duration) runs {
			return runs{Task: "*" + here + "call", Repeating: true, Running: 1, AtLeast: atLeast * time.Second, Due: at(due)}
		}
		for _, want := range []struct {
			at  time.Duration
			all []runs
		}{
			{9, nil},
			{11, []runs{rate(0, 10), of(1, 0, 10)}},
			{13, []runs{rate(2, 10), of(1, 2, 10)}},
			{15, []runs{of(2, 4, 10), rate(0, 12)}},
			{20, []runs{of(2, 9, 10), rate(0, 14)}},
			{31, []runs{rate(0, 20), of(1, 16, 15)}},
			{36, []runs{rate(0, 22)}},
		} {
			pass(time.Until(at(want.at)))
			require.Equal(t, want.all, localDue(getJSON(t, h).Timers[0].Running), want.at)
		}
		slow.Cancel()
		pass(5 * time.Second)
		require.Empty(t, getJSON(t, h).Timers[0].Running)
	})
}

// A stuck task is stuck in Canceled, and in Next after the first run.
type stuck struct {
	release chan struct{}
	runs    int
}

func (s *stuck) Run(*hashedwheel.Timeout)      {}
func (s *stuck) Canceled(*hashedwheel.Timeout) { <-s.release }
func (s *stuck) Next(prev time.Time) time.Time {
	if s.runs++; s.runs > 1 {
		<-s.release
	}
	return prev.Add(time.Second)
}

// A page shows a Next, a Canceled, a panic handler and a submit that are in progress as that, with their functions, and Stats counts
// them.
func TestCallsThatAreNoTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{release: make(chan struct{})}
		defer close(s.release)
		hold := false
		submit := func(run func()) error {
			if hold {
				<-s.release
			}
			go run()
			return nil
		}
		handle := func(*hashedwheel.Timeout, any, []byte) { <-s.release }
		timer := newTimer(t, hashedwheel.WithPanicHandler(handle), hashedwheel.WithExecutor(submit))
		to, err := timer.NewTimeout(s, time.Hour)
		require.NoError(t, err)
		to.Cancel()
		_, err = timer.Schedule(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {}), s)
		require.NoError(t, err)
		_, err = timer.AfterFunc(time.Second, func() { panic("on purpose") })
		require.NoError(t, err)
		pass(2 * time.Second)
		hold = true
		_, err = timer.AfterFunc(0, nop)
		require.NoError(t, err)
		pass(time.Second)
		h := Handler(timer)
		getJSON(t, h)
		pass(5 * time.Second)
		tp := getJSON(t, h).Timers[0]
		var all []string
		for _, r := range tp.Running {
			require.Equal(t, 1, r.Running)
			require.GreaterOrEqual(t, r.AtLeast, 5*time.Second) // the timer itself may have looked before the page did
			all = append(all, r.Task+" "+r.What)
		}
		require.Equal(t, 4, tp.Stats.Running)
		require.ElementsMatch(t, []string{"*" + here + "stuck.Canceled Canceled", "*" + here + "stuck.Next Next",
			here + "TestCallsThatAreNoTasks.func1.2 panic handler", here + "TestCallsThatAreNoTasks.func1.1 submit"}, all)
		text := regexp.MustCompile(` +`).ReplaceAllString(get(t, h, "/"), " ")
		require.Contains(t, text, "; running 4, ")
		require.Regexp(t, `\n 1 \S+s 7s ago \*`+here+`stuck.Next \(Next\) \(repeating\)\n`, text)
		require.Regexp(t, `\n 1 \S+s `+here+`TestCallsThatAreNoTasks.func1.1 \(submit\)\n`, text)
	})
}

// On the other side of a bubble a page finds nothing that runs, and harms nothing.
func TestRunningOutsideOfTheBubble(t *testing.T) {
	release, started := make(chan bool), make(chan bool)
	timer := newTimer(t, hashedwheel.WithTick(time.Millisecond))
	_, err := timer.AfterFunc(0, func() { started <- true; <-release })
	require.NoError(t, err)
	<-started
	h := Handler(timer).(*handler)
	synctest.Test(t, func(t *testing.T) {
		require.Empty(t, runsOf(timer))
	})
	require.Len(t, getJSON(t, h).Timers[0].Running, 1)
	close(release)
	_, err = timer.Shutdown(t.Context())
	require.NoError(t, err)
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

// Tasks of the library of one type are in rows of their own if they say different things.
func TestTasksOfOneTypeOfTheLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		c := clock.New(timer)
		for range 2 {
			c.AfterFunc(time.Hour, nop)
			c.AfterFunc(time.Hour, func() {})
			c.NewTimer(time.Hour)
			c.NewTicker(time.Hour)
		}
		limit, err := idle.New(timer, time.Hour)
		require.NoError(t, err)
		for _, nc := range []net.Conn{new(conn), new(conn), struct{ *conn }{new(conn)}, struct{ *conn }{new(conn)}} {
			_, err := limit.Conn(nc)
			require.NoError(t, err)
		}
		var all []string
		for _, r := range getJSON(t, Handler(timer)).Timers[0].Tasks {
			require.Equal(t, 2, r.Pending)
			all = append(all, r.Task)
		}
		require.ElementsMatch(t, []string{"clock.AfterFunc " + here + "nop", "clock.AfterFunc " + here + "TestTasksOfOneTypeOfTheLibrary.func1.1",
			"clock.Timer", "clock.Ticker", "idle.Conn of *wheeldebug.conn", "idle.Conn of struct { *wheeldebug.conn }"}, all)
		timer.Stop()
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
