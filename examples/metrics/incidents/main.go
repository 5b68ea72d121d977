// Incidents plays what can go wrong with a timer, so that you can try the commands of docs/operations.md before you need
// them. Each function below is an incident, with the mistake or the trouble that is behind it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"github.com/hashedwheel/hashedwheel/keyed"
	"github.com/hashedwheel/hashedwheel/wheeldebug"
)

// An incident is played by a function that returns the timer that an operator knows. It goes on after the function has
// returned.
type incident struct {
	name, what string
	play       func() *hashedwheel.Timer
}

var incidents = []incident{
	{"overwritten", "a struct is cleared for its next use, with the Timeout in it", overwritten},
	{"copied", "a slice of structs with a Timeout grows, and the old ones are canceled", copied},
	{"not-found", "the same, and the panics of Cancel are recovered", notFound},
	{"unstopped", "each request makes a timer of its own, and nobody stops it", unstopped},
	{"forgotten", "each request arms a timeout, and nobody cancels it", forgotten},
	{"leak", "one of three callers of the same function forgets to cancel its timeouts", leak},
	{"unit", "a delay in milliseconds is multiplied by time.Second", wrongUnit},
	{"connections", "each connection arms a repeating task, which goes on after its end", connections},
	{"tick", "the tick is longer than the delays", longTick},
	{"behind", "the task of a fixed rate is slower than its period", behind},
	{"limit", "tasks hang at the limit", hangAtLimit},
	{"drops", "the executor drops functions", drops},
	{"drops-at-limit", "the same, with a limit", dropsAtLimit},
	{"refuses", "the executor refuses functions", refuses},
	{"blocks", "the executor is full, and its submit blocks", blocks},
	{"panics", "tasks panic", panics},
	{"panic-flood", "each task panics, and another one now and then", panicFlood},
	{"submit-panics", "the submit of an executor panics", submitPanics},
	{"full", "the timer is full", full},
	{"stopped", "timeouts are armed after Stop", stopped},
	{"shutdown", "a task calls Shutdown", shutdown},
	{"hang", "tasks hang in a lock, with the default options", hang},
	{"next", "the schedules of jobs hang in Next", hangInNext},
	{"canceled", "a Canceled takes three seconds, thirty times a second", slowCanceled},
	{"keys", "calls of a keyed.Map hang at its WithConcurrency", hangingKeys},
	{"waits", "tasks wait for themselves", waitForThemselves},
	{"storm", "a loop arms and cancels timeouts as fast as it can", storm},
	{"suspended", "the process stands still for two seconds", suspended},
}

func newTimer(opts ...hashedwheel.Option) *hashedwheel.Timer {
	return must(hashedwheel.New(append(opts, hashedwheel.WithName("rpc"))...))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// A call has a Timeout as a field.
type call struct {
	timeout hashedwheel.Timeout
}

func (c *call) Run(*hashedwheel.Timeout) {}

func bound(timer *hashedwheel.Timer, c *call) {
	timer.Bind(&c.timeout, c)
	must(c.timeout.Reset(time.Second))
}

func overwritten() *hashedwheel.Timer {
	timer, c := newTimer(), new(call)
	bound(timer, c)
	time.Sleep(700 * time.Millisecond) // longer than a call usually takes, so the timer has put it into a bucket
	c.timeout.Cancel()
	clearCall(c)
	bound(timer, c)
	return timer
}

func clearCall(c *call) { *c = call{} } //hashedwheelvet:ignore this is the mistake

func boundCalls(timer *hashedwheel.Timer) []call {
	calls := make([]call, 100)
	for i := range calls {
		bound(timer, &calls[i])
	}
	return calls
}

func copied() *hashedwheel.Timer {
	timer := newTimer()
	calls := append(boundCalls(timer), call{}) //hashedwheelvet:ignore this is the mistake
	for i := range calls {
		calls[i].timeout.Cancel() // panics, except for one copy in seven
	}
	return timer
}

func notFound() *hashedwheel.Timer {
	timer := newTimer()
	calls := boundCalls(timer)
	time.Sleep(700 * time.Millisecond)
	calls = append(calls, call{}) //hashedwheelvet:ignore this is the mistake
	for i := range calls {
		func() {
			defer func() { _ = recover() }() // as a server does for each request
			calls[i].timeout.Cancel()
		}()
	}
	return timer
}

func unstopped() *hashedwheel.Timer {
	for range 500 {
		perRequest()
	}
	return newTimer()
}

func perRequest() {
	timer := must(hashedwheel.New())
	must(timer.ScheduleWithFixedDelay(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {}), time.Minute, time.Minute))
}

func forgotten() *hashedwheel.Timer {
	timer := newTimer()
	for range 1000 {
		timer.AfterFunc(10*time.Minute, expire)
		time.Sleep(time.Millisecond)
	}
	return timer
}

func expire() {}

func leak() *hashedwheel.Timer {
	timer := newTimer()
	go func() {
		for ask(timer) && save(timer) && remove(timer) {
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return timer
}

func ask(timer *hashedwheel.Timer) (ok bool) { return answered(timer.AfterFunc(time.Minute, noAnswer)) }
func save(timer *hashedwheel.Timer) (ok bool) {
	return answered(timer.AfterFunc(time.Minute, noAnswer))
}

func remove(timer *hashedwheel.Timer) (ok bool) {
	_, err := timer.AfterFunc(time.Minute, noAnswer)
	return err == nil
}

func noAnswer() {}

// answered cancels the timeout of a call when its answer is here.
func answered(to *hashedwheel.Timeout, err error) (ok bool) {
	if err != nil {
		return false // stopped
	}
	time.AfterFunc(100*time.Millisecond, func() { to.Cancel() })
	return true
}

func wrongUnit() *hashedwheel.Timer {
	timer, milliseconds := newTimer(), 500_000_000
	must(timer.AfterFunc(time.Duration(milliseconds)*time.Second, expire))
	return timer
}

type ping struct{}

func (*ping) Run(*hashedwheel.Timeout) {}

func connections() *hashedwheel.Timer {
	timer := newTimer()
	for range 1000 {
		must(timer.ScheduleWithFixedDelay(new(ping), time.Minute, time.Minute))
	}
	return timer
}

// longest is the longest wait of longTick.
var longest atomic.Int64

func longTick() *hashedwheel.Timer {
	timer := newTimer() // a tick of 100 ms
	var poll func()
	poll = func() {
		time.Sleep(time.Millisecond) // some work
		start := time.Now()
		timer.AfterFunc(100*time.Millisecond, func() {
			longest.Store(max(longest.Load(), int64(time.Since(start))))
			poll()
		})
	}
	poll()
	return timer
}

func behind() *hashedwheel.Timer {
	timer := newTimer()
	must(timer.ScheduleAtFixedRate(hashedwheel.TaskFunc(poll), time.Second, time.Second))
	return timer
}

func poll(*hashedwheel.Timeout) { time.Sleep(3 * time.Second) }

func hangAtLimit() *hashedwheel.Timer {
	timer := newTimer(hashedwheel.WithMaxConcurrency(2))
	for range 100 {
		must(timer.AfterFunc(0, charge))
	}
	return timer
}

var never = make(chan struct{})

func charge() { <-never }

// each arms timeouts, ten a second. It is a loop of its own goroutine, until the timer is stopped.
func each(timer *hashedwheel.Timer, task func()) {
	for {
		if _, err := timer.AfterFunc(0, task); errors.Is(err, hashedwheel.ErrStopped) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func drops() *hashedwheel.Timer {
	timer := newTimer(hashedwheel.WithExecutor(dropFive()))
	go each(timer, expire)
	return timer
}

func dropFive() (submit func(run func()) error) {
	var n atomic.Int64
	return func(run func()) error {
		if n.Add(1) <= 5 {
			return nil // dropped: nobody will call it
		}
		go run()
		return nil
	}
}

func dropsAtLimit() *hashedwheel.Timer {
	timer := newTimer(hashedwheel.WithExecutor(dropFive()), hashedwheel.WithMaxConcurrency(5))
	go each(timer, expire)
	return timer
}

func refuses() *hashedwheel.Timer {
	timer := newTimer(hashedwheel.WithExecutor(func(func()) error { return errors.New("queue full") }))
	go each(timer, expire)
	return timer
}

func blocks() *hashedwheel.Timer {
	timer := newTimer(hashedwheel.WithExecutor(func(func()) error { <-never; return nil }))
	for range 100 {
		must(timer.AfterFunc(0, expire))
	}
	return timer
}

func panics() *hashedwheel.Timer {
	timer := newTimer()
	must(timer.AfterFunc(0, broken))
	return timer
}

func broken() {
	var balances map[string]int
	balances["a"]++ //lint:ignore SA5000 this is the incident
}

func panicFlood() *hashedwheel.Timer {
	timer := newTimer()
	go eachFor(timer, 20*time.Millisecond, broken)
	go eachFor(timer, 7*time.Minute, brokenToo)
	return timer
}

func brokenToo() { panic("another fault") }

func submitPanics() *hashedwheel.Timer {
	timer := newTimer(hashedwheel.WithExecutor(func(func()) error { broken(); return nil }))
	go eachFor(timer, 20*time.Millisecond, expire)
	return timer
}

func full() *hashedwheel.Timer {
	timer := newTimer(hashedwheel.WithMaxPending(1))
	for range 3 {
		timer.AfterFunc(time.Hour, expire)
	}
	return timer
}

func stopped() *hashedwheel.Timer {
	timer := newTimer()
	timer.Stop()
	timer.AfterFunc(time.Hour, expire)
	return timer
}

func shutdown() *hashedwheel.Timer {
	timer := newTimer()
	must(timer.AfterFunc(0, func() { end(timer) }))
	return timer
}

func end(timer *hashedwheel.Timer) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	_, err := timer.Shutdown(ctx)
	slog.Error("Shutdown", "error", err)
}

func hang() *hashedwheel.Timer {
	timer := newTimer()
	go eachFor(timer, 60*time.Millisecond, lock)
	return timer
}

func lock() { <-never } // as a Lock of a mutex that somebody keeps

// eachFor arms timeouts, one each interval. It is a loop of its own goroutine, until the timer is stopped.
func eachFor(timer *hashedwheel.Timer, interval time.Duration, task func()) {
	for {
		if _, err := timer.AfterFunc(0, task); errors.Is(err, hashedwheel.ErrStopped) {
			return
		}
		time.Sleep(interval)
	}
}

// A cron is a schedule that asks a server for the next time, from the second time on.
type cron struct{ asked bool }

func (c *cron) Next(prev time.Time) time.Time {
	if c.asked {
		<-never // the server does not answer
	}
	c.asked = true
	return prev.Add(time.Second)
}

func hangInNext() *hashedwheel.Timer {
	timer := newTimer()
	for range 40 {
		must(timer.Schedule(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {}), new(cron)))
	}
	return timer
}

// A transfer is canceled, and then tells somebody.
type transfer struct{}

func (*transfer) Run(*hashedwheel.Timeout)      {}
func (*transfer) Canceled(*hashedwheel.Timeout) { time.Sleep(3 * time.Second) }

func slowCanceled() *hashedwheel.Timer {
	timer := newTimer()
	go func() {
		for {
			to, err := timer.NewTimeout(new(transfer), time.Minute)
			if err != nil {
				return // stopped
			}
			to.Cancel()
			time.Sleep(time.Second / 30)
		}
	}()
	return timer
}

func hangingKeys() *hashedwheel.Timer {
	timer := newTimer()
	sessions := keyed.New(timer, evict, keyed.WithConcurrency(4))
	go func() {
		for i := 0; ; i++ {
			if sessions.Set(i, i, time.Second) != nil {
				return // stopped
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return timer
}

func evict(key, value int) { <-never }

func waitForThemselves() *hashedwheel.Timer {
	timer := newTimer()
	for i := range 1200 {
		must(timer.NewTimeout(hashedwheel.TaskFunc(replace), time.Duration(i)*500*time.Millisecond))
	}
	return timer
}

var program = context.Background()

// replace waits until the run is over in which it is called.
func replace(to *hashedwheel.Timeout) { to.WaitRunning(program) }

func storm() *hashedwheel.Timer {
	timer := newTimer()
	go func() {
		for {
			retry(timer)
		}
	}()
	return timer
}

func retry(timer *hashedwheel.Timer) {
	to := must(timer.AfterFunc(time.Second, expire))
	to.Cancel()
}

func suspended() *hashedwheel.Timer {
	timer := newTimer()
	var late atomic.Int64
	for i := range 10 {
		due := time.Now().Add(time.Duration(1+i) * 100 * time.Millisecond)
		must(timer.NewTimeoutAt(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) {
			if time.Since(due) > 500*time.Millisecond && late.Add(1) == 10 {
				fmt.Println("10 tasks were late, together")
			}
		}), due))
	}
	// What a debugger, a frozen container, or a machine without a processor to spare does.
	script := fmt.Sprintf("kill -STOP %d; sleep 2; kill -CONT %[1]d", os.Getpid())
	if err := exec.Command("sh", "-c", script).Start(); err != nil {
		panic(err)
	}
	return timer
}

func main() {
	runtime.MemProfileRate = 4 << 10 // not 512 KB, because the incidents are small
	demo.Main(run)
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := demo.Flags("incidents", "plays an incident of docs/operations.md, until Ctrl-C")
	name := flags.String("play", "", "the `name` of the incident; without it, lists them all")
	address := flags.String("listen", "127.0.0.1:6060", "`address` to serve the page and profiles on")
	if err := demo.Parse(flags, args, out); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, i := range incidents {
		if i.name == *name {
			return serve(ctx, *address, i, out)
		}
		fmt.Fprintf(table, "%s\t%s\n", i.name, i.what)
	}
	if *name != "" {
		return demo.Exit{Code: 2, Err: fmt.Errorf("incidents: there is no incident %q", *name)}
	}
	return table.Flush()
}

// serve plays an incident, and serves the page and profiles until ctx is done.
func serve(ctx context.Context, address string, i incident, out io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	defer listener.Close()
	timer := i.play()
	mux := http.NewServeMux()
	mux.Handle("/debug/hashedwheel", wheeldebug.Handler(timer))
	mux.Handle("/debug/pprof/", http.DefaultServeMux) // where the import of net/http/pprof has put it
	var served sync.WaitGroup
	served.Go(func() { http.Serve(listener, mux) })
	fmt.Fprintf(out, "%s: http://%s/debug/hashedwheel and http://%[2]s/debug/pprof/\n", i.what, listener.Addr())
	<-ctx.Done()
	listener.Close()
	served.Wait()
	return nil
}
