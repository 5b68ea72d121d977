// Metrics serves the metrics of two timers under load, for Prometheus to scrape.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"time"

	"github.com/hashedwheel/hashedwheel"
	promwheel "github.com/hashedwheel/hashedwheel/metrics/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("metrics", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Usage: metrics [flags]\nMetrics serves the metrics of two timers under load. Press Ctrl-C to end it.")
		flags.PrintDefaults()
	}
	listen := flags.String("listen", "127.0.0.1:9099", "`address` to serve on")
	length := flags.Duration("for", 0, "how `long` to run; 0 until Ctrl-C")
	rate := flags.Int("rate", 20_000, "make `N` requests a second, each with a timeout")
	retries := flags.Int("retries", 200, "make `N` retries a second")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if *rate < 1 || *retries < 1 || *length < 0 || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "metrics: -rate and -retries must be positive, -for must not be negative, and only flags are allowed")
		return 2
	}
	if err := serve(ctx, *listen, *length, *rate, *retries, stdout); err != nil {
		fmt.Fprintln(stderr, "metrics:", err)
		return 1
	}
	return 0
}

// serve makes the timers, runs the load on them, and serves their metrics until the context is done or
// length has passed.
func serve(ctx context.Context, listen string, length time.Duration, rate, retries int, stdout io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if length > 0 {
		defer time.AfterFunc(length, cancel).Stop()
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	var timers []*hashedwheel.Timer
	for _, opts := range [][]hashedwheel.Option{
		{hashedwheel.WithName("rpc")},
		{hashedwheel.WithName("retry"), hashedwheel.WithTick(10 * time.Millisecond), hashedwheel.WithLevels(2)},
	} {
		timer, err := hashedwheel.New(opts...)
		if err != nil {
			return err
		}
		defer timer.Shutdown(context.WithoutCancel(ctx))
		if err := registry.Register(promwheel.NewCollector(timer)); err != nil {
			return err
		}
		timers = append(timers, timer)
	}

	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(stdout, "serving http://%s/metrics\n", listener.Addr())

	done := load(ctx, timers[0], timers[1], rate, retries)
	select {
	case <-ctx.Done():
	case err = <-served: // Serve returns only after an error
		cancel()
	}
	server.Close()
	<-done
	for _, timer := range timers {
		if _, err := timer.Shutdown(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		st := timer.Stats()
		fmt.Fprintf(stdout, "%-6s accepted %d, expired %d, canceled %d, returned %d; lateness: %v\n",
			timer.Name(), st.Accepted, st.Expired, st.Canceled, st.Returned, st.Lateness)
	}
	return err
}
