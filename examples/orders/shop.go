package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// drainCommand is a line for the standard input of a shop. After it the shop takes no more orders, and ends
// when no order is open.
const drainCommand = "drain"

// A shop is the process that is killed. Its customers order one thing after another, and pay for some of
// them a while later. When a change is on disk, the shop prints a line: that is the acknowledgment.
type shop struct {
	opts    options
	store   *store
	manager *manager
	stop    context.CancelFunc
	failed  chan error // the first failure

	mu     sync.Mutex
	stdout io.Writer
}

// runShop runs a shop until ctx is canceled or stdin ends. Stdin also ends when the process that writes to it
// ends. Open orders then stay open.
func runShop(ctx context.Context, o options, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	st, err := openStore(o.db)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := &shop{opts: o, store: st, stop: stop, failed: make(chan error, 1), stdout: stdout}
	s.manager, err = newManager(st, o.horizon, o.tick,
		func(id uint64) { s.say("canceled %d", id) },
		func(err error) { fmt.Fprintln(stderr, "orders:", err) })
	if err != nil {
		return errors.Join(err, st.close())
	}
	defer func() { err = errors.Join(err, s.manager.close(), s.failure(), st.close()) }()

	before, err := st.open()
	if err != nil {
		return err
	}
	armed, overdue, err := s.manager.start()
	if err != nil {
		return err
	}
	s.say("loaded %d %d %d", armed, overdue, before-armed)

	drain := make(chan struct{})
	go s.obey(stdin, drain)
	s.serve(ctx, drain)
	return s.drain(ctx)
}

// fail ends the shop.
func (s *shop) fail(err error) {
	select {
	case s.failed <- err:
	default: // not the first failure
	}
	s.stop()
}

// failure returns the error that ended the shop, or nil.
func (s *shop) failure() error {
	select {
	case err := <-s.failed:
		return err
	default:
		return nil
	}
}

// obey closes drain when it reads drainCommand, and ends the shop when stdin ends.
func (s *shop) obey(stdin io.Reader, drain chan<- struct{}) {
	once := sync.OnceFunc(func() { close(drain) })
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == drainCommand {
			once()
		}
	}
	s.stop()
}

// serve runs the customers. It returns when ctx is canceled or drain is closed, and all customers have left.
func (s *shop) serve(ctx context.Context, drain <-chan struct{}) {
	var customers sync.WaitGroup
	for range s.opts.clients {
		customers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-drain:
					return
				default:
					s.order()
				}
			}
		})
	}
	customers.Wait()
}

// order orders one thing for a customer. Most customers who pay do so soon. Some pay too late: at the same
// time as the expiry, or after it.
func (s *shop) order() {
	id, err := s.manager.create(s.opts.timeout)
	if err != nil {
		s.fail(fmt.Errorf("create: %w", err))
		return
	}
	s.say("created %d", id)
	if rand.Float64() >= s.opts.pay {
		return
	}
	r := rand.Float64()
	delay := time.Duration(1.1 * r * r * float64(s.opts.timeout))
	// The only possible error is that the timer is stopped. Then no customer pays any more.
	s.manager.timer.AfterFunc(delay, func() { s.pay(id) })
}

func (s *shop) pay(id uint64) {
	switch ok, err := s.manager.pay(id); {
	case err != nil:
		s.fail(fmt.Errorf("pay: %w", err))
	case ok:
		s.say("paid %d", id)
	default:
		s.say("refused %d", id)
	}
}

// drain waits until no order is open or ctx is canceled.
func (s *shop) drain(ctx context.Context) error {
	for ctx.Err() == nil {
		n, err := s.store.open()
		if n == 0 || err != nil {
			return err
		}
		s.manager.timer.Sleep(ctx, 20*time.Millisecond)
	}
	return nil
}

// say writes a line in one piece.
func (s *shop) say(format string, args ...any) {
	line := fmt.Appendf(nil, format+"\n", args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.stdout.Write(line); err != nil {
		s.fail(fmt.Errorf("write: %w", err))
	}
}
