// Orders cancels orders that are not paid in time. The orders and their deadlines are in a file, which survives a
// kill -9. Run it twice on one file, kill it in between, and look at:
//
//   - shop, here: a timeout is only a hint to look at an order. So the program can arm all pending orders when it
//     starts, and arming an order twice does no harm.
//   - store.end in store.go: one transaction changes the state of an order and removes its deadline. So an order ends
//     once, even if its payment meets its deadline, and even if the process is killed.
package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
	"github.com/hashedwheel/hashedwheel/keyed"
)

// A shop takes orders, and cancels an order at its deadline unless it has been paid.
//
// Deadlines are wall-clock times, because no other clock has a meaning after a restart. The delay of a timeout does not
// change with the wall clock. If that is set back, the timeout expires before the deadline, and expire arms it again.
// If it is set forward, orders whose timeouts are armed already are canceled late.
type shop struct {
	store    *store
	timer    *hashedwheel.Timer
	timeouts *keyed.Map[uint64, time.Time] // the deadlines of the open orders, by order
	told     func(id uint64, is state)     // is called after each change, when it is on disk
	fail     func(err error)               // ends the shop, because the next start arms what is left
}

// arm arms the timeout of an order. An overdue order expires at the next tick.
func (s *shop) arm(id uint64, deadline time.Time) error {
	return s.timeouts.Set(id, deadline, deadline.Sub(s.store.now()))
}

// open makes an order. If the process is killed between the commit and arm, the next start arms the timeout.
func (s *shop) open(timeToPay time.Duration) (id uint64, err error) {
	id, deadline, err := s.store.open(timeToPay)
	if err != nil {
		return 0, err
	}
	s.told(id, open)
	return id, s.arm(id, deadline)
}

// pay pays an order, unless it has been canceled.
func (s *shop) pay(id uint64) error {
	_, changed, err := s.store.end(id, paid)
	if changed {
		s.timeouts.Remove(id)
		s.told(id, paid)
	}
	return err
}

// expire is the task of a timeout. It may wait for the disk, because a task delays others by two ticks at most. Orders
// that are due together share a transaction.
func (s *shop) expire(id uint64, _ time.Time) {
	o, changed, err := s.store.end(id, canceled)
	if changed {
		s.told(id, canceled)
	} else if err == nil && o.state() == open { // the wall clock was set back
		err = s.arm(id, o.Deadline)
	}
	if err != nil && !errors.Is(err, hashedwheel.ErrStopped) {
		s.fail(err)
	}
}

// serve runs a shop with some customers until ctx is done. Open orders then stay open in the store.
func serve(ctx context.Context, st *store, customers int, told func(id uint64, is state)) error {
	timer, err := hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond))
	if err != nil {
		return err
	}
	working, fail := context.WithCancelCause(ctx)
	s := &shop{store: st, timer: timer, told: told, fail: fail}
	s.timeouts = keyed.New(timer, s.expire)
	if err := st.pending(s.arm); err != nil {
		fail(err)
	}
	var wg sync.WaitGroup
	for range customers {
		wg.Go(func() { s.visit(working) })
	}
	<-working.Done()
	wg.Wait()
	_, err = timer.Shutdown(context.Background()) // waits for the transactions of tasks
	if cause := context.Cause(working); cause != context.Cause(ctx) {
		return cause
	}
	return err
}

// visit is a customer, who makes one order after another. He pays most of them, and some too late.
func (s *shop) visit(ctx context.Context) {
	const timeToPay = time.Second
	for ctx.Err() == nil {
		id, err := s.open(timeToPay)
		if err == nil && s.timer.Sleep(ctx, rand.N(timeToPay*12/10)) == nil && rand.IntN(10) > 0 {
			err = s.pay(id)
		}
		if err != nil {
			s.fail(err)
		}
	}
}

func main() { demo.Main(run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := demo.Flags("orders", "cancels orders that are not paid in time, and loses none in a kill -9")
	file := flags.String("db", "shop.db", "the database `file`, which is made if it does not exist")
	length := flags.Duration("for", 3*time.Second, "how `long` to take orders")
	check := flags.Bool("check", false, "take no orders: check the file, and print what is in it")
	if err = demo.Parse(flags, args, out); err != nil {
		return err
	}
	st, had, err := openStore(*file, *check)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.db.Close()) }()
	row := func(name string, n map[state]int) []any { return []any{name, n[open], n[paid], n[canceled]} }
	rows := [][]any{{"", open, paid, canceled}, row("found", had)}
	if !*check {
		ctx, cancel := context.WithTimeout(ctx, *length)
		defer cancel()
		if err := serve(ctx, st, 200, func(uint64, state) {}); err != nil {
			return err
		}
		has, err := st.check()
		if err != nil {
			return err
		}
		rows = append(rows, row("left", has))
	}
	demo.Table(out, rows...)
	return nil
}
