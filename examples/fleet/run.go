package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines/server"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
)

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := demo.Flags("fleet", "cancels orders that are not paid in time, on several machines.")
	urls := flags.String("nats", "", "`addresses` of NATS servers, separated by commas (default one in this program)")
	listen := flags.String("listen", "127.0.0.1:0", "the `address` of the server in this program")
	dir := flags.String("dir", "shop", "the `directory` of that server; the next run continues with its open orders")
	workers := flags.Uint("workers", 3, "how `many` workers cancel orders; one is killed and replaced halfway")
	orders := flags.Uint("orders", 2000, "how `many` orders to place; with 0 only the workers run, until Ctrl-C")
	rate := flags.Uint("rate", 200, "how many `orders` to place in a second")
	timeToPay := flags.Duration("time", 3*time.Second, "how `long` an order can be paid")
	if err := demo.Parse(flags, args, out); err != nil {
		return err
	}
	if *workers == 0 || *timeToPay <= 0 || *rate == 0 || *rate > 1e6 {
		return demo.Exit{Code: 2, Err: errors.New("fleet: -workers, -time and -rate must be positive, and -rate at most 1000000")}
	}
	c := &crowd{timeToPay: *timeToPay, told: make(map[string]state)}
	hide := func() {}
	if *orders == 0 {
		fmt.Fprintf(out, "%d workers cancel orders, until Ctrl-C\n", *workers)
	} else {
		fmt.Fprintf(out, "%d orders begin, and %d workers\n", *orders, *workers)
		hide = demo.Progress(func() string { return c.progress(*orders) })
	}
	defer hide()
	if *urls == "" {
		srv, err := server.Start(server.Config{Dir: *dir, Listen: *listen})
		if err != nil {
			return err
		}
		defer srv.Stop()
		*urls = srv.URL()
	}
	s, err := openShop(ctx, *urls)
	if err != nil {
		return err
	}
	defer s.close()
	c.shop = s
	reporting := context.WithoutCancel(ctx) // the report comes also after Ctrl-C
	found, err := c.audit(reporting)
	if err != nil {
		return err
	}

	working, stop := context.WithCancelCause(ctx)
	f := &fleet{urls: *urls, fail: stop}
	defer f.working.Wait()
	defer stop(nil)
	for range *workers {
		if err := f.hire(working); err != nil {
			return err
		}
	}
	if err := c.buy(working, *orders, *rate, f); err != nil {
		return err
	}
	for {
		interrupted := ctx.Err() != nil
		if interrupted {
			f.working.Wait()
		} else if working.Err() != nil {
			return context.Cause(working)
		}
		left, err := c.audit(reporting)
		switch {
		case err != nil && interrupted:
			return err
		case err != nil: // servers of a cluster may elect a leader
			slog.Warn("fleet: the orders cannot be read", "err", err)
		case interrupted || left.count[open] == 0:
			hide()
			return c.report(out, found, left, f.killed)
		}
		sleep(working, lease/4)
	}
}

// A crowd is the customers of a shop, and what the shop has told them.
type crowd struct {
	shop      *shop
	timeToPay time.Duration

	mu   sync.Mutex
	told map[string]state // by order; only what the shop has acknowledged
}

// buy places orders, and returns when no customer is going to pay any more. It kills a worker halfway.
func (c *crowd) buy(ctx context.Context, n, rate uint, f *fleet) error {
	if n == 0 {
		<-ctx.Done()
	}
	var customers sync.WaitGroup
	defer customers.Wait()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := range n {
		select {
		case <-tick.C:
			customers.Go(func() { c.visit(ctx, fmt.Sprintf("customer %d", i)) })
		case <-ctx.Done():
			return nil
		}
		if i == n/2 {
			f.kill()
			if err := f.hire(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	return nil
}

// visit is a customer, who places an order. Three of four pay, and some of them too late.
func (c *crowd) visit(ctx context.Context, customer string) {
	request := context.WithoutCancel(ctx) // Ctrl-C waits for the answer
	o := order{ID: fmt.Sprintf("%016x", rand.Uint64()), Customer: customer, Deadline: time.Now().Add(c.timeToPay)}
	c.tell(o, open, c.shop.place(request, o))
	if rand.IntN(4) > 0 && sleep(ctx, rand.N(c.timeToPay*12/10)) {
		as, err := c.shop.pay(request, o)
		c.tell(o, as, err)
	}
}

func (c *crowd) tell(o order, as state, err error) {
	if err != nil {
		slog.Warn("fleet: a customer has no answer", "err", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told[o.ID] = as
}

// progress returns a line about what the customers have been told.
func (c *crowd) progress(orders uint) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := make(map[state]int)
	for _, as := range c.told {
		count[as]++
	}
	return fmt.Sprintf("%d of %d orders are placed, %d are paid, for %d the customer was too late",
		len(c.told), orders, count[paid], count[canceled])
}

// sleep reports whether it has slept until the end, because ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
