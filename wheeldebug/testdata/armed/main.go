// Armed arms timeouts in all ways, on a goroutine of the timer, and writes a heap profile to a file. It is a program of its
// own because the command that reads the profile hides all functions of the library.
package main

import (
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/hashedwheel/hashedwheel/idle"
	"github.com/hashedwheel/hashedwheel/keyed"
)

var (
	timer  *hashedwheel.Timer
	tasks  int   // so that the functions are not inlined into each other
	clocks []any // what the program must keep
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func run() { tasks++ }

func armTimeouts(n int) {
	for range n {
		must(timer.AfterFunc(time.Hour, run))
	}
}

func armRepeating(n int) {
	for range n {
		must(timer.ScheduleAtFixedRate(hashedwheel.TaskFunc(func(*hashedwheel.Timeout) { tasks++ }), time.Hour, time.Hour))
	}
}

func armGroup(n int) {
	g := hashedwheel.NewGroup(timer)
	for range n {
		must(g.AfterFunc(time.Hour, run))
	}
}

func setKeys(n int) {
	m := keyed.New[int, int](timer, nil)
	for i := range n {
		must(0, m.Set(i, i, time.Hour))
	}
}

func makeTimers(n int) {
	c := clock.New(timer)
	for range n {
		clocks = append(clocks, c.AfterFunc(time.Hour, run))
	}
}

func limitConns(n int) {
	limit := must(idle.New(timer, time.Hour))
	for range n {
		inner, _ := net.Pipe()
		must(limit.Conn(inner))
	}
}

func main() {
	runtime.MemProfileRate = 1
	timer = must(hashedwheel.New())
	done := make(chan bool)
	must(timer.AfterFunc(0, func() {
		armTimeouts(6000)
		armRepeating(5000)
		armGroup(4000)
		setKeys(3000)
		makeTimers(2000)
		limitConns(1000)
		close(done)
	}))
	<-done
	runtime.GC()
	runtime.GC() // a profile has what was in use at the end of the last but one
	f := must(os.Create(os.Args[1]))
	must(0, pprof.Lookup("heap").WriteTo(f, 0))
	must(0, f.Close())
	runtime.KeepAlive(timer)
}
