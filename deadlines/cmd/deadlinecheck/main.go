// Deadlinecheck reads a store of package deadlines, which may be in use, and reports what is wrong in it. It exits
// with 1 if it finds a fault, and with 2 if it cannot read the store. With -repair it sets each deadline again that
// has no wake-up, as after the restoration of a backup.
//
//	go run github.com/hashedwheel/hashedwheel/deadlines/cmd/deadlinecheck -nats nats://a:4222,nats://b:4222
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/nats-io/nats.go"
)

func main() {
	urls := flag.String("nats", nats.DefaultURL, "`addresses` of the servers, separated by commas")
	name := flag.String("name", "deadlines", "`name` of the store")
	creds := flag.String("creds", "", "`file` with credentials, if the servers ask for them")
	limit := flag.Duration("timeout", 5*time.Minute, "`time` after which the check is given up")
	repair := flag.Bool("repair", false, "set deadlines again that have no wake-up")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	r, repaired, err := check(ctx, *urls, *name, *creds, *repair)
	if err != nil {
		fmt.Fprintln(os.Stderr, "deadlinecheck:", err)
		os.Exit(2)
	}
	fmt.Printf("keys %d: pending %d, running %d, handled %d, canceled %d\n", r.Keys, r.Pending, r.Running, r.Handled, r.Canceled)
	fmt.Printf("revisions %d, wake-ups %d, set aside %d\n", r.Revisions, r.Wakeups, r.Aside)
	fmt.Printf("overdue %d, by up to %v\n", r.Overdue, r.MostOverdue.Round(time.Millisecond))
	fmt.Printf("faults %d\n", r.Faults)
	for _, f := range r.FirstFaults {
		fmt.Println(f)
	}
	if *repair {
		fmt.Printf("repaired %d\n", repaired)
	}
	if r.Faults > repaired {
		os.Exit(1)
	}
}

func check(ctx context.Context, urls, name, creds string, repair bool) (r *deadlines.Report, repaired int, err error) {
	var options []nats.Option
	if creds != "" {
		options = append(options, nats.UserCredentials(creds))
	}
	nc, err := deadlines.Connect(urls, options...)
	if err != nil {
		return nil, 0, err
	}
	defer nc.Close()
	if r, err = deadlines.Check(ctx, nc, name); err != nil || !repair || r.Faults == 0 {
		return r, 0, err
	}
	// One replica on a cluster is no reason to leave the store broken.
	store, err := deadlines.Open(ctx, nc, deadlines.Config{Name: name, Replicas: r.Replicas})
	if err != nil {
		return r, 0, err
	}
	defer store.Close()
	repaired, err = store.Repair(ctx, r)
	return r, repaired, err
}
