//go:build unix

package deadlines_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	stormLease = 2 * time.Second
	stormKeys  = 200 // at a time; each is left after a few operations, and another one begins
)

// A storm is a cluster with workers and programs that set deadlines, while one fault follows another.
type storm struct {
	t       *testing.T
	rand    *rand.Rand
	cluster *cluster
	dir     string
	workers []*process
	hired   int
	stores  []*deadlines.Store // of the test, each with a connection to another server
	phases  []phase

	mu        sync.Mutex
	histories []*history
}

// A phase is the time of a fault, until the cluster has recovered from it.
type phase struct {
	name       string
	start, end time.Time
}

type fault struct {
	name  string
	cause func(*storm)
}

var faults = []fault{
	{"kill -9 of a worker", func(s *storm) {
		i := s.rand.IntN(len(s.workers))
		s.workers[i].kill()
		s.workers[i] = s.hire()
		time.Sleep(stormLease)
	}},
	{"SIGSTOP of a worker for 1.5 leases", func(s *storm) {
		s.workers[s.rand.IntN(len(s.workers))].pause(stormLease * 3 / 2)
	}},
	{"kill -9 of the leader, back after 1s", func(s *storm) {
		leader := s.leader()
		s.cluster.servers[leader].kill()
		time.Sleep(time.Second)
		s.cluster.start(leader)
	}},
	{"kill -9 of all servers", func(s *storm) {
		for _, p := range s.cluster.servers {
			p.kill()
		}
		for i := range s.cluster.servers {
			s.cluster.start(i)
		}
	}},
	{"loss of a server's data", func(s *storm) { s.cluster.wipe(s.rand.IntN(3)) }},
	{"no connections for 1.5s", func(s *storm) {
		for _, p := range s.cluster.proxies {
			p.cut()
		}
		time.Sleep(1500 * time.Millisecond)
		for _, p := range s.cluster.proxies {
			p.mend()
		}
	}},
	// It goes on as if it were the leader, although the others may have elected another one.
	{"SIGSTOP of the leader for 6s", func(s *storm) { s.cluster.servers[s.leader()].pause(6 * time.Second) }},
}

// TestStorm lasts as long as HASHEDWHEEL_SOAK says, such as 2h. HASHEDWHEEL_SEED repeats the order of the faults.
func TestStorm(t *testing.T) {
	length := 35 * time.Second
	if testing.Short() {
		length = 8 * time.Second
	}
	if soak := os.Getenv("HASHEDWHEEL_SOAK"); soak != "" {
		var err error
		length, err = time.ParseDuration(soak)
		require.NoError(t, err)
	}
	seed := rand.Uint64()
	if v := os.Getenv("HASHEDWHEEL_SEED"); v != "" {
		_, err := fmt.Sscan(v, &seed)
		require.NoError(t, err)
	}
	t.Logf("HASHEDWHEEL_SEED=%d", seed)
	dir, err := os.MkdirTemp("", "storm")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs of the processes are in %s", dir)
		} else {
			os.RemoveAll(dir)
		}
	})
	s := &storm{t: t, rand: rand.New(rand.NewPCG(seed, 0)), dir: dir, cluster: startCluster(t, dir)}
	s.openStores()
	for range 3 {
		s.workers = append(s.workers, s.hire())
	}
	s.cluster.awaitHealthy(3)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var setters sync.WaitGroup
	for i := range stormKeys {
		setters.Go(func() { s.set(ctx, i) })
	}
	start := time.Now()
	for round := []fault(nil); time.Since(start) < length; {
		if len(round) == 0 {
			round = slices.Clone(faults)
			s.rand.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		}
		s.suffer(round[0])
		round = round[1:]
		time.Sleep(s.calm())
	}
	stop()
	setters.Wait()
	s.verify()
	s.dismiss()
	s.print()
}

// calm is the time between two faults.
func (s *storm) calm() time.Duration {
	return time.Second + time.Duration(s.rand.IntN(500))*time.Millisecond
}

func (s *storm) suffer(f fault) {
	p := phase{name: f.name, start: time.Now()}
	f.cause(s)
	s.cluster.awaitHealthy(3)
	p.end = time.Now()
	s.phases = append(s.phases, p)
	s.t.Logf("%s: all is well after %v", f.name, p.end.Sub(p.start).Round(time.Millisecond))
}

// leader waits until there is a leader, and returns it.
func (s *storm) leader() (i int) {
	s.t.Helper()
	eventually(s.t, "there is a leader", func() error {
		if i = s.cluster.leader(); i < 0 {
			return errors.New("there is none")
		}
		return nil
	})
	return i
}

func (s *storm) openStores() {
	s.t.Helper()
	for i := range 3 {
		nc, err := deadlines.Connect(s.cluster.urls(i), nats.DontRandomize())
		require.NoError(s.t, err)
		s.t.Cleanup(nc.Close)
		cfg := deadlines.Config{Lease: stormLease, Retain: -1, Logger: fileLogger(s.t, filepath.Join(s.dir, fmt.Sprint("setter", i, ".log")))}
		store, err := deadlines.Open(s.t.Context(), nc, cfg)
		require.NoError(s.t, err)
		s.t.Cleanup(store.Close)
		s.stores = append(s.stores, store)
	}
}

func (s *storm) hire() *process {
	s.t.Helper()
	s.hired++
	name := filepath.Join(s.dir, fmt.Sprint("worker", s.hired))
	return startProcess(s.t, name+".log", childSpec{Worker: &workerSpec{
		URLs: s.cluster.urls(s.hired), Calls: name + ".calls", Lease: stormLease,
	}})
}

// set does a few things with one key after another.
func (s *storm) set(ctx context.Context, n int) {
	for i := 0; ctx.Err() == nil; i++ {
		h := &history{key: fmt.Sprintf("key/%d/%d", n, i)}
		for range 1 + rand.N(6) {
			wait := rand.N(3 * time.Second)
			if rand.N(3) == 0 {
				wait = 0 // a replica may not have the last operation yet
			}
			select {
			case <-ctx.Done():
			case <-time.After(wait):
				h.ops = append(h.ops, s.operate(h.key))
			}
		}
		s.mu.Lock()
		s.histories = append(s.histories, h)
		s.mu.Unlock()
	}
}

// operate does something with a key, through a store at random. A third of the calls has little time, so that some
// end without an answer.
func (s *storm) operate(key string) (o operation) {
	store := s.stores[rand.N(len(s.stores))]
	ctx := context.Background()
	if rand.N(3) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond+rand.N(time.Second))
		defer cancel()
	}
	o.start = time.Now()
	ahead := rand.N(4 * time.Second)
	if rand.N(3) == 0 {
		ahead = rand.N(16 * time.Second)
	}
	at := o.start.Add(ahead - time.Second).Round(0)
	switch n := rand.N(10); {
	case n < 6:
		o.kind, o.at = "set", at
		o.err = store.Set(ctx, key, at, []byte(key))
		o.ok = o.err == nil
	case n < 8:
		o.kind, o.at = "move", at
		o.ok, o.err = store.Move(ctx, key, at)
	default:
		o.kind = "cancel"
		o.ok, o.err = store.Cancel(ctx, key)
	}
	o.end = time.Now()
	return o
}

// verify waits until nothing is overdue, and compares the store, the histories and the calls.
func (s *storm) verify() {
	t := s.t
	nc, err := deadlines.Connect(s.cluster.urls(0))
	require.NoError(t, err)
	defer nc.Close()
	var report *deadlines.Report
	var quiet time.Time // all deadlines up to then are ended
	eventually(t, "nothing is overdue", func() (err error) {
		quiet = time.Now()
		if report, err = deadlines.Check(t.Context(), nc, "deadlines"); err != nil {
			return err
		}
		if report.Overdue > 0 {
			return fmt.Errorf("%d deadlines are overdue, one by %v", report.Overdue, report.MostOverdue)
		}
		return nil
	})
	assert.Zero(t, report.Faults, strings.Join(report.FirstFaults, "\n"))
	t.Logf("%d keys, %d revisions: %d handled, %d canceled, %d pending",
		report.Keys, report.Revisions, report.Handled, report.Canceled, report.Pending)

	finals := make(map[string]*deadlines.Deadline)
	for _, h := range s.histories {
		d, err := s.stores[0].Get(t.Context(), h.key)
		if errors.Is(err, deadlines.ErrNotFound) {
			continue
		}
		require.NoError(t, err)
		finals[h.key] = &d
	}
	calls := make(map[string][]call)
	for _, c := range readCalls(t, filepath.Join(s.dir, "*.calls")) {
		calls[c.key] = append(calls[c.key], c)
	}
	bad := 0
	for _, h := range s.histories {
		faults := h.verify(finals[h.key], calls[h.key], quiet)
		if bad += len(faults); len(faults) > 0 && bad < 20 {
			t.Errorf("%s: %s\n%s", h.key, strings.Join(faults, "\n"), h.describe(calls[h.key]))
		}
	}
	require.Zero(t, bad, "faults")
}

// dismiss ends the workers in good order.
func (s *storm) dismiss() {
	for _, w := range s.workers {
		require.NoError(s.t, w.finish(), w.log)
	}
	logs, err := filepath.Glob(filepath.Join(s.dir, "worker*.log"))
	require.NoError(s.t, err)
	for _, name := range logs {
		text, err := os.ReadFile(name)
		require.NoError(s.t, err)
		require.NotContains(s.t, string(text), "DATA RACE", name)
		require.NotContains(s.t, string(text), "panic", name)
	}
}

// print logs how late the first call for each deadline was, for the fault during which it came or was late.
func (s *storm) print() {
	type id struct {
		key string
		at  int64
	}
	first, oks := make(map[id]int64), make(map[id]int)
	for _, c := range readCalls(s.t, filepath.Join(s.dir, "*.calls")) {
		k := id{c.key, c.at}
		if c.kind == "ok" {
			oks[k]++
		}
		if was, found := first[k]; c.kind == "call" && (!found || c.now < was) {
			first[k] = c.now
		}
	}
	const none = "none"
	late := make(map[string][]time.Duration)
	unknown, ops := 0, 0
	for _, h := range s.histories {
		for _, o := range h.ops {
			ops++
			if o.err != nil {
				unknown++
			}
			ns, found := first[id{h.key, o.at.UnixNano()}]
			if !o.ok || o.at.IsZero() || !found {
				continue
			}
			called := time.Unix(0, ns)
			due := o.at
			if o.end.After(due) {
				due = o.end
			}
			name := none
			for _, p := range s.phases {
				if due.Before(p.end) && called.After(p.start) {
					name = p.name
				}
			}
			late[name] = append(late[name], max(0, called.Sub(due)))
		}
	}
	again := 0
	for _, n := range oks {
		if n > 1 {
			again++
		}
	}
	s.t.Logf("%d operations, %d without an answer; %d deadlines called, %d of them successfully more than once",
		ops, unknown, len(first), again)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tdeadlines\tlate: p50\tp99\tmost")
	for _, f := range append(slices.Clone(faults), fault{name: none}) {
		d := late[f.name]
		if len(d) == 0 {
			continue
		}
		slices.Sort(d)
		at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1))].Round(time.Millisecond) }
		fmt.Fprintf(w, "%s\t%d\t%v\t%v\t%v\n", f.name, len(d), at(0.5), at(0.99), at(1))
	}
	w.Flush()
	s.t.Logf("\n%s", b.String())
}
