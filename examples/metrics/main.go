// Metrics serves the metrics of two timers under load, for Prometheus to scrape, and a page of what is pending. Look at
// serve: a program only needs to register each timer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"github.com/hashedwheel/hashedwheel/metrics/promwheel"
	"github.com/hashedwheel/hashedwheel/wheeldebug"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serve serves the metrics of the timers, a page of what is pending, and profiles, until ctx is done.
func serve(ctx context.Context, listener net.Listener, timers ...*hashedwheel.Timer) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	for _, timer := range timers {
		if err := promwheel.Register(registry, timer); err != nil {
			return err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/debug/hashedwheel", wheeldebug.Handler(timers...))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// load makes requests until ctx is done, each with a timeout of three seconds on rpc. A timeout on retry is the reply,
// which cancels that timeout within 50 ms. One request in a hundred has a retry instead, which takes up to 20 ms.
func load(ctx context.Context, rpc, retry *hashedwheel.Timer, rate int) error {
	for began, n := time.Now(), 0; retry.Sleep(ctx, retry.Tick()) == nil; {
		for due := int(time.Since(began).Seconds() * float64(rate)); n < due && ctx.Err() == nil; n++ {
			timeout, err1 := rpc.AfterFunc(3*time.Second, func() {})
			reply, delay := func() { timeout.Cancel() }, rand.N(50*time.Millisecond)
			if n%100 == 0 {
				reply, delay = func() { time.Sleep(rand.N(20 * time.Millisecond)) }, rand.N(10*time.Second)
			}
			_, err2 := retry.AfterFunc(delay, reply)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
		}
	}
	return nil
}

func main() { demo.Main(run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := demo.Flags("metrics", "serves the metrics of two timers under load, until Ctrl-C")
	address := flags.String("listen", "127.0.0.1:9099", "`address` to serve on")
	rate := flags.Int("rate", 20_000, "make `N` requests a second, each with a timeout")
	if err := demo.Parse(flags, args, out); err != nil {
		return err
	}
	rpc, err1 := hashedwheel.New(hashedwheel.WithName("rpc"))
	retry, err2 := hashedwheel.New(
		hashedwheel.WithName("retry"), hashedwheel.WithTick(10*time.Millisecond), hashedwheel.WithLevels(2))
	listener, err3 := net.Listen("tcp", *address)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	fmt.Fprintf(out, "serving http://%s/metrics and http://%[1]s/debug/hashedwheel\n", listener.Addr())
	ctx, cancel := context.WithCancel(ctx)
	loaded := make(chan error, 1)
	go func() { loaded <- load(ctx, rpc, retry, *rate) }()
	err := serve(ctx, listener, rpc, retry)
	cancel()
	err = errors.Join(err, <-loaded)
	for _, timer := range []*hashedwheel.Timer{rpc, retry} {
		_, stopErr := timer.Shutdown(context.WithoutCancel(ctx))
		err = errors.Join(err, stopErr)
		st := timer.Stats()
		fmt.Fprintf(out, "%-6s accepted %d, expired %d, canceled %d, returned %d; lateness: %v\n",
			timer.Name(), st.Accepted, st.Expired, st.Canceled, st.Returned, st.Lateness)
	}
	return err
}
