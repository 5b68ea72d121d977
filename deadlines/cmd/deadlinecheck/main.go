// Deadlinecheck reads a store of package deadlines, which may be in use, and reports what is wrong in it. It exits
// with 1 if it finds a fault, with 2 if it cannot read the store, and with 3 if the servers hold more than they send, as for
// some seconds after a restoration, and still do so when the time is up. With -repair it sets each deadline again that
// has no wake-up, as after the restoration of a backup. With -release it makes a pending deadline due now, such as one that
// was set aside because workers have died in its handler. It then exits with 1 if there is none.
//
//	go install github.com/hashedwheel/hashedwheel/deadlines/cmd/deadlinecheck@latest
//	deadlinecheck -nats nats://a:4222,nats://b:4222
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, complaints io.Writer) (code int) {
	flags := flag.NewFlagSet("deadlinecheck", flag.ContinueOnError)
	flags.SetOutput(complaints)
	urls := flags.String("nats", nats.DefaultURL, "`addresses` of the servers, separated by commas")
	name := flags.String("name", "deadlines", "`name` of the store")
	creds := flags.String("creds", "", "`file` with credentials, if the servers ask for them")
	limit := flags.Duration("timeout", 5*time.Minute, "`time` after which the check is given up")
	release := flags.String("release", "", "only make the pending deadline of this `key` due now, such as one that was set aside")
	repair := flags.Bool("repair", false, "set deadlines again that have no wake-up")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	if *release != "" {
		return releaseKey(ctx, *urls, *name, *creds, *release, out, complaints)
	}
	r, repaired, err := check(ctx, *urls, *name, *creds, *repair)
	if err != nil {
		fmt.Fprintln(complaints, "deadlinecheck:", err)
		if repaired > 0 {
			fmt.Fprintf(out, "repaired %d\n", repaired)
		}
		if errors.Is(err, deadlines.ErrIncomplete) {
			return 3
		}
		return 2
	}
	fmt.Fprintln(out, r)
	if *repair {
		fmt.Fprintf(out, "repaired %d\n", repaired)
	}
	if r.Faults > repaired {
		return 1
	}
	return 0
}

func connect(urls, creds string) (*nats.Conn, error) {
	options := []nats.Option{nats.RetryOnFailedConnect(false)}
	if creds != "" {
		options = append(options, nats.UserCredentials(creds))
	}
	return deadlines.Connect(urls, options...)
}

func releaseKey(ctx context.Context, urls, name, creds, key string, out, complaints io.Writer) (code int) {
	released, err := moveToNow(ctx, urls, name, creds, key)
	switch {
	case err != nil:
		fmt.Fprintln(complaints, "deadlinecheck:", err)
		return 2
	case !released:
		fmt.Fprintf(complaints, "deadlinecheck: %q is not pending\n", key)
		return 1
	}
	fmt.Fprintf(out, "%q is due now\n", key)
	return 0
}

func moveToNow(ctx context.Context, urls, name, creds, key string) (bool, error) {
	nc, err := connect(urls, creds)
	if err != nil {
		return false, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return false, err
	}
	bucket, err := js.Stream(ctx, "KV_"+name) // Open would make it
	if err != nil {
		return false, err
	}
	store, err := deadlines.Open(ctx, nc, deadlines.Config{Name: name, Replicas: bucket.CachedInfo().Config.Replicas})
	if err != nil {
		return false, err
	}
	defer store.Close()
	return store.Move(ctx, key, time.Now())
}

func check(ctx context.Context, urls, name, creds string, repair bool) (r *deadlines.Report, repaired int, err error) {
	nc, err := connect(urls, creds)
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
	// The repair of very many may take longer than the check. Each of its calls has a limit of its own.
	repaired, err = store.Repair(context.WithoutCancel(ctx), r)
	return r, repaired, err
}
