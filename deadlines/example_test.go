package deadlines_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/hashedwheel/hashedwheel/deadlines/server"
	"github.com/nats-io/nats.go"
)

// serveExample starts a server inside this process. A program that has servers of its own needs only their addresses.
func serveExample() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "deadlines")
	check(err)
	srv, err := server.Start(server.Config{
		Dir:    dir,
		Listen: "127.0.0.1:0", // any free port
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	check(err)
	return srv.URL(), func() {
		srv.Stop()
		os.RemoveAll(dir)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// An order is canceled if it is not paid in time. One order is paid.
func Example() {
	url, stop := serveExample()
	defer stop()
	nc, err := deadlines.Connect(url)
	check(err)
	defer nc.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store, err := deadlines.Open(ctx, nc, deadlines.Config{Name: "orders"})
	check(err)
	defer store.Close()

	check(store.Set(ctx, "order-17", time.Now().Add(100*time.Millisecond), []byte("2 books")))
	check(store.Set(ctx, "order-18", time.Now().Add(30*time.Minute), []byte("a lamp")))
	paid, err := store.Cancel(ctx, "order-18")
	check(err)
	fmt.Println("order-18 is paid in time:", paid)

	check(store.Work(ctx, func(_ context.Context, d deadlines.Deadline) error {
		fmt.Printf("%s is not paid: %s\n", d.Key, d.Payload)
		cancel() // a worker goes on until its context is done
		return nil
	}))
	// Output:
	// order-18 is paid in time: true
	// order-17 is not paid: 2 books
}

// The store is on three servers that ask for a password.
func ExampleOpen() {
	nc, err := deadlines.Connect("nats://n1.example.com,nats://n2.example.com,nats://n3.example.com",
		nats.UserInfo("deadlines", os.Getenv("NATS_PASSWORD")))
	if err != nil {
		slog.Error("connect", "err", err)
		return
	}
	defer nc.Close()
	store, err := deadlines.Open(context.Background(), nc, deadlines.Config{Name: "orders"})
	if err != nil {
		slog.Error("open", "err", err)
		return
	}
	defer store.Close()
}

// Set may be called again for a key. The last call counts.
func ExampleStore_Set() {
	url, stop := serveExample()
	defer stop()
	nc, err := deadlines.Connect(url)
	check(err)
	defer nc.Close()
	ctx := context.Background()
	store, err := deadlines.Open(ctx, nc, deadlines.Config{Name: "sessions"})
	check(err)
	defer store.Close()

	begin := time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC)
	check(store.Set(ctx, "session-1", begin, []byte("alice")))
	check(store.Set(ctx, "session-1", begin.Add(time.Hour), []byte("alice")))
	d, err := store.Get(ctx, "session-1")
	check(err)
	fmt.Println(d.Key, d.Status, d.At.Format(time.TimeOnly))
	// Output:
	// session-1 pending 01:00:00
}

// A handler that returns an error is called again.
func ExampleStore_Work() {
	url, stop := serveExample()
	defer stop()
	nc, err := deadlines.Connect(url)
	check(err)
	defer nc.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store, err := deadlines.Open(ctx, nc, deadlines.Config{
		MinBackoff: 10 * time.Millisecond,
		Logger:     slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	check(err)
	defer store.Close()

	check(store.Set(ctx, "mail-5", time.Now(), nil))
	check(store.Work(ctx, func(_ context.Context, d deadlines.Deadline) error {
		fmt.Println(d.Key, "attempt", d.Attempts)
		if d.Attempts < 3 {
			return fmt.Errorf("the mail server does not answer")
		}
		cancel()
		return nil
	}))
	// Output:
	// mail-5 attempt 1
	// mail-5 attempt 2
	// mail-5 attempt 3
}

// Deadlines move from one store to another one. In the meantime, no worker runs.
func ExampleStore_All() {
	url, stop := serveExample()
	defer stop()
	nc, err := deadlines.Connect(url)
	check(err)
	defer nc.Close()
	ctx := context.Background()
	from, err := deadlines.Open(ctx, nc, deadlines.Config{Name: "old"})
	check(err)
	defer from.Close()
	to, err := deadlines.Open(ctx, nc, deadlines.Config{Name: "new"})
	check(err)
	defer to.Close()

	check(from.Set(ctx, "job-1", time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC), nil))
	for d, err := range from.All(ctx) {
		check(err)
		check(to.Set(ctx, d.Key, d.At, d.Payload))
	}
	for d, err := range to.All(ctx) {
		check(err)
		fmt.Println(d.Key, d.At.Format(time.DateOnly))
	}
	// Output:
	// job-1 2100-01-01
}
