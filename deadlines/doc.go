// Package deadlines keeps deadlines that outlive the process and the machine. They are in streams of NATS
// JetStream; a hashedwheel.Timer of each worker holds the near ones.
//
//	nc, err := deadlines.Connect("nats://a:4222,nats://b:4222,nats://c:4222")
//	...
//	store, err := deadlines.Open(ctx, nc, deadlines.Config{Name: "orders"})
//	...
//	err = store.Set(ctx, "order-17", time.Now().Add(30*time.Minute), payload) // from any process
//	...
//	canceled, err := store.Cancel(ctx, "order-17") // the order was paid
//	...
//	err = store.Work(ctx, func(ctx context.Context, d deadlines.Deadline) error { // on any machine
//		return cancelOrder(ctx, d.Key, d.Payload)
//	})
//
// What it guarantees, as long as most of the servers keep their files:
//
//   - Nothing is lost. When Set has returned nil, a handler will return nil for the deadline, unless it is canceled, set
//     again, or set aside because ten workers in a row have died in the handler. Every crash may happen at every moment.
//   - Never early. A handler is called when the clock of the server that leads the bucket has reached the deadline,
//     or later. A worker reads that clock three times a lease, and assumes the least that the reading allows. Its own
//     clock does not matter; if it differs by more than a lease, the worker says so and stops acting. The clocks of
//     the servers must agree, and At is a time of the caller's clock.
//   - At least once. A handler whose worker dies or loses its lease is called again, and so is one that fails. One
//     success ends a deadline, and no call begins after the end. A call that began before may still run then.
//   - A Cancel that returns true has won: no call for that deadline begins any more. The only exception is a process
//     that is suspended for longer than a lease, just between its claim and the call.
//
// How late a handler is called: with a worker that is alive and idle, by a tick of 10 ms and two requests. The README
// has figures, also for each fault.
//
// A lease is the time for which the server trusts a silent worker. A worker gets a deadline half a lease before it
// is due. While a handler runs, the worker sends a sign of life three times a lease. After a lease without one, the
// server gives the deadline to another worker. A short lease makes deadlines less late when a worker dies; a busy
// machine that sends its signs too late makes handlers run twice. A lease counts the time for which a machine is awake.
//
// A timeout of a hashedwheel.Timer counts only the time for which its machine is awake, because on Linux monotonic time
// stands still while a machine sleeps. A deadline here is a time of the servers' clocks. So it comes also while the
// machines of workers sleep: after a lease, the server gives it to a worker that is awake.
//
// If the server closes the connection because a program has sent what it does not accept, such as too long a subject,
// the store makes another one with the same options.
//
// Set, Move, Cancel and Get wait for the servers, up to Config.Timeout or until their context is done. Then the error
// names the reason and wraps what happened last, and the outcome of the call is unknown.
package deadlines
