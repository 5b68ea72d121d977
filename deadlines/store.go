package deadlines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// A Config describes a store. The zero value of a field means its default.
type Config struct {
	// Name of the store on the servers: letters, digits, "-" and "_". The default is "deadlines".
	Name string
	// Lease is how long a worker may be silent before the server gives its deadlines to another one. It is kept
	// with the store; the README says how to change it. The default is that of the store, or 5 s if Open makes the
	// store. At least 1 s.
	Lease time.Duration
	// Replicas is the number of servers that keep the store: 1, 3 or 5. It is kept with the store. The default
	// is that of the store. If Open makes the store, it is 3 on a cluster, and 1 on a single server. Open
	// refuses to use one replica on a cluster unless Replicas is 1.
	Replicas int
	// Retain is how long a deadline that was handled or canceled can be read by Get. The default is 24 h, the
	// least is 1 min. If it is negative, the store keeps each for ever, with up to 64 revisions. A program that needs
	// the outcome for longer keeps it elsewhere.
	Retain time.Duration
	// Timeout bounds a call of Set, Move, Cancel or Get whose context has no deadline. The default is 15 s. That is
	// longer than an election takes, so the error tells full servers from servers that elect a leader.
	Timeout time.Duration
	// Concurrency is how many handlers a call of Work runs at a time, up to 100,000. The default is 64.
	Concurrency int
	// MinBackoff is the mean delay before the second call of a handler that failed. It doubles with each call,
	// up to MaxBackoff. Each delay is random, from half to one and a half of that. The defaults are 1 s and 5 min,
	// and the most is 366 days.
	MinBackoff, MaxBackoff time.Duration
	// Logger receives what an operator should know. The default is slog.Default().
	Logger *slog.Logger
}

const (
	history      = 64              // revisions of a key, the most that JetStream keeps
	markerTTL    = time.Second     // of the marker that replaces a key whose TTL is over; no TTL may be shorter
	requestLimit = 2 * time.Second // for one request; the election of a leader may take longer
	startLimit   = 30 * time.Second
	minRetain    = time.Minute // a connection over which a request takes as long is lost
	consumerName = "workers"
	leaseKey     = "hashedwheel-lease" // in the metadata of the bucket
	idKey        = "hashedwheel-id"    // in the metadata of both streams
	idSuffix     = 6                   // characters of the ID of a process that its name in records has

	// With each schedule, a server of this version sets the timer of all schedules again, for a quarter of a second at least.
	lateVersion = "2.12.0"

	maxError   = 1000                 // bytes of the text of an error in a record, each up to six bytes in JSON
	headroom   = 10 * maxError        // bytes of a message for everything but the payload
	maxWorkers = 100_000              // handlers at a time
	maxDelay   = 366 * 24 * time.Hour // of the backoff
)

var (
	// ErrMismatch is wrapped by the error of Open if the store has other settings, or unsafe ones.
	ErrMismatch = errors.New("deadlines: the store has other settings")
	// ErrNotFound is returned by Get for a key that was never set, or has been removed after Config.Retain.
	ErrNotFound = errors.New("deadlines: not found")
	// ErrClosed is wrapped by the errors of calls after Close, and by that of Work.
	ErrClosed = errors.New("the store is closed")
)

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func (c Config) withDefaults() (Config, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Name == "" {
		c.Name = "deadlines"
	}
	if c.Concurrency == 0 {
		c.Concurrency = 64
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	def(&c.Retain, 24*time.Hour)
	def(&c.Timeout, electionLimit+5*time.Second)
	def(&c.MinBackoff, time.Second)
	def(&c.MaxBackoff, max(c.MinBackoff, 5*time.Minute))
	switch {
	case !validName.MatchString(c.Name):
		return c, fmt.Errorf("deadlines: name %q: only letters, digits, - and _ are allowed", c.Name)
	case c.Lease != 0 && c.Lease < time.Second:
		return c, fmt.Errorf("deadlines: lease %v: it must be at least 1s", c.Lease)
	case c.Replicas != 0 && c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5:
		return c, fmt.Errorf("deadlines: %d replicas: only 1, 3 and 5 are allowed", c.Replicas)
	case c.Retain > 0 && c.Retain < minRetain:
		return c, fmt.Errorf("deadlines: retain %v: it must be at least %v, or negative", c.Retain, minRetain)
	case c.Concurrency > maxWorkers || c.MaxBackoff > maxDelay:
		return c, fmt.Errorf("deadlines: concurrency %d over %d, or backoff %v over %v", c.Concurrency, maxWorkers, c.MaxBackoff, maxDelay)
	case c.Timeout < 0, c.Concurrency < 0, c.MinBackoff < 0, c.MaxBackoff < c.MinBackoff:
		return c, fmt.Errorf("deadlines: negative setting, or MaxBackoff < MinBackoff: %+v", c)
	}
	return c, nil
}

// Connect connects to servers, such as "nats://a:4222,nats://b:4222", with the options that Open expects: the
// connection is made again whenever it is lost, for ever, and a silent server is noticed after six seconds. If no server
// is up, Connect returns at once, and the connection is made later: Open waits for it, and says so in the log. The other
// options may add credentials or TLS. With nats.RetryOnFailedConnect(false), Connect fails if no server is up.
func Connect(urls string, options ...nats.Option) (*nats.Conn, error) {
	safe := []nats.Option{
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond), nats.ReconnectJitter(250*time.Millisecond, time.Second),
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2),
		nats.IgnoreAuthErrorAbort(),                                       // credentials that fail may be mended
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the default prints; Open logs them
	}
	return nats.Connect(urls, append(safe, options...)...)
}

// A Store is a set of deadlines on the servers. Any number of goroutines, processes and machines may use it.
type Store struct {
	cfg     Config               // with its defaults, and the lease of the store
	by      string               // names this process in records
	id      string               // names this process on the servers
	linked  atomic.Pointer[link] // to the servers, after Open
	working atomic.Int64         // calls of Work
	log     *slog.Logger         // with the name of the store
	clock   clock
	health  health
	flood   flood
	denials denials
	room    room
	peers   atomic.Pointer[peers]
	unsafe  atomic.Pointer[error] // see danger
	// Only Open and then the watcher use these: the bucket that Open has found, the last revision that it has had since,
	// whether an earlier state of it was restored, and the present stream of wake-ups.
	bucket     origin
	bucketLast uint64
	restored   bool
	wakeups    origin
	madeAgain  atomic.Int64 // counts the streams of wake-ups that look has found
	// failedAudits counts the last audits in a row that failed. Only the present one uses it.
	failedAudits int
	// lostSince is when look found that the bucket is gone, or zero. Only Open and then the watcher call look.
	lostSince time.Time
	counts    counts
	calls     calls
	lives     lives
	ctx       context.Context // done after Close
	cancel    context.CancelFunc
	watchers  sync.WaitGroup
}

// Open returns the store of a connection, and makes it if there is none. It refuses a store with other settings
// with an error that wraps ErrMismatch. It tries for 30 s, or until ctx is done, while servers are not ready.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &link{nc: nc}
	if l.js, err = jetstream.New(nc); err != nil {
		return nil, fmt.Errorf("deadlines: %w", err)
	}
	host, _ := os.Hostname()
	id := nuid.Next()
	s := &Store{cfg: cfg, id: id, by: fmt.Sprintf("%s-%d-%s", host, os.Getpid(), id[len(id)-idSuffix:])}
	s.linked.Store(l)
	s.log = cfg.Logger.With("store", cfg.Name)
	s.flood.log = s.log
	s.clock.wall = time.Now
	s.ctx, s.cancel = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	s.listen(nc)
	if !nc.IsConnected() {
		s.log.Warn("deadlines: there is no connection yet, and Open waits for one", "servers", servers(nc))
	}
	var said string
	err = s.persist(ctx, func(attempt context.Context) error {
		err := s.setUp(attempt, l)
		if err != nil {
			s.count(ctx) // attempt may be over
		}
		err = s.explain(err)
		if f := (final{}); err != nil && !errors.As(err, &f) && err.Error() != said {
			said = err.Error()
			s.log.Warn("deadlines: the store is not open yet, and Open tries again", "because", err)
		}
		return err
	})
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("deadlines: open %q: %w", cfg.Name, err)
	}
	if nc.Opts.MaxReconnect >= 0 {
		s.log.Warn("deadlines: the connection will be given up when the servers are away for long; see Connect",
			"attempts", nc.Opts.MaxReconnect)
	}
	if version := nc.ConnectedServerVersion(); version == lateVersion {
		s.log.Error("deadlines: a server of this version delivers nothing as long as deadlines are set again and again; install a later one",
			"version", version, "server", nc.ConnectedServerName())
	}
	s.health.log, s.health.forget = s.log, max(sickEvery, s.cfg.Lease)
	s.watch()
	return s, nil
}

// Name returns the name of the store: Config.Name.
func (s *Store) Name() string { return s.cfg.Name }

// Config returns the settings of the store, with the defaults, the lease and the number of replicas.
func (s *Store) Config() Config { return s.cfg }

// Close ends the use of the store by this process. Calls of Work stop, and return an error that wraps ErrClosed; Close does
// not wait for them. The connection stays open.
func (s *Store) Close() {
	s.cancel()
	s.watchers.Wait()
	s.flood.flush()
	s.release()
}

// setUp finds or makes the bucket, the stream of wake-ups and its consumer, verifies them, and reads the server's
// clock.
func (s *Store) setUp(ctx context.Context, l *link) (err error) {
	l.records, err = l.js.Stream(ctx, s.bucketName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if _, other := l.js.Stream(ctx, s.wakeupsName()); other == nil {
			return reason{what: "no stream", more: ": " + s.bucketName() + " is gone with all deadlines, and " + s.wakeupsName() +
				" is there; restore the former from a backup, or remove the latter to begin anew", err: err}
		} else if !errors.Is(other, jetstream.ErrStreamNotFound) {
			return other
		}
		l.records, err = s.makeBucket(ctx, l)
	}
	if err != nil {
		return err
	}
	s.see(l.records.CachedInfo())
	bucket := l.records.CachedInfo().Config
	if err := s.adopt(bucket, l.nc.ConnectedClusterName()); err != nil {
		return final{err}
	}
	s.bucket, s.bucketLast = originOf(l.records.CachedInfo()), 0
	if err := s.bindBucket(ctx, l); err != nil {
		return err
	}
	consumer, err := s.ensureWakeups(ctx, l)
	if err != nil {
		return err
	}
	danger := s.verify(l.records.CachedInfo(), l.wakeups.CachedInfo(), consumer.CachedInfo())
	if errors.Is(danger, ErrMismatch) {
		return final{danger}
	}
	return s.look(ctx)
}

// bindBucket binds the bucket of l.records. Only its leader is to answer reads. A replica that is behind would not know of
// a Set that has returned.
func (s *Store) bindBucket(ctx context.Context, l *link) (err error) {
	if bucket := l.records.CachedInfo().Config; bucket.AllowDirect {
		bucket.AllowDirect = false
		if l.records, err = l.js.UpdateStream(ctx, bucket); err != nil {
			return err
		}
	}
	l.bucket, err = l.js.KeyValue(ctx, s.cfg.Name)
	return err
}

func (s *Store) makeBucket(ctx context.Context, l *link) (jetstream.Stream, error) {
	lease, replicas := s.cfg.Lease, s.cfg.Replicas
	if lease == 0 {
		lease = 5 * time.Second
	}
	if replicas == 0 {
		replicas = 1
		if l.nc.ConnectedClusterName() != "" {
			replicas = 3
		}
	}
	if replicas > 1 && l.nc.ConnectedClusterName() == "" {
		return nil, final{fmt.Errorf("%d replicas need as many servers, and %s is no member of a cluster",
			replicas, l.nc.ConnectedUrlRedacted())}
	}
	_, err := l.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: s.cfg.Name, Description: "deadlines", History: history, Storage: jetstream.FileStorage,
		Replicas: replicas, LimitMarkerTTL: markerTTL, Metadata: map[string]string{leaseKey: lease.String(), idKey: nuid.Next()},
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return made(ctx, l, s.bucketName())
	}
	if api := new(jetstream.APIError); errors.As(err, &api) && replicas > 1 {
		err = fmt.Errorf("%d replicas need as many servers with JetStream: %w", replicas, err)
	}
	if err != nil {
		return nil, err
	}
	return l.js.Stream(ctx, s.bucketName())
}

func (s *Store) makeWakeups(ctx context.Context, l *link) (jetstream.Stream, error) {
	c := s.wakeupsConfig()
	c.Metadata = map[string]string{idKey: nuid.Next()}
	stream, err := l.js.CreateStream(ctx, c)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return made(ctx, l, s.wakeupsName())
	}
	return stream, err
}

func (s *Store) wakeupsConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              s.wakeupsName(),
		Description:       "wake-ups for the deadlines of the bucket " + s.cfg.Name,
		Subjects:          s.subjects(),
		MaxMsgsPerSubject: 1,
		Retention:         jetstream.WorkQueuePolicy, // an acknowledged message is gone
		Storage:           jetstream.FileStorage,
		Replicas:          s.cfg.Replicas,
		AllowMsgSchedules: true,
		AllowMsgTTL:       true,
	}
}

// made returns a stream that another process makes at the same time.
func made(ctx context.Context, l *link, name string) (jetstream.Stream, error) {
	for {
		stream, err := l.js.Stream(ctx, name)
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return stream, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, reason{what: "no stream", more: ": another process makes " + name, err: ctx.Err()}
		}
	}
}

// subjects returns the subjects of wake-ups: scheduled, for the workers, set aside because no worker can handle them,
// and of those messages that only probe the stream.
func (s *Store) subjects() []string {
	return []string{s.subject("at", "*"), s.subject("due", "*"), s.subject("aside", "*"), s.subject("probe", "*")}
}

func (s *Store) makeConsumer(ctx context.Context, l *link) (jetstream.Consumer, error) {
	return l.wakeups.CreateConsumer(ctx, s.consumerConfig())
}

func (s *Store) consumerConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Name:          consumerName,
		Durable:       consumerName,
		FilterSubject: s.subject("due", "*"),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       s.cfg.Lease,
		MaxDeliver:    -1,
		MaxAckPending: -1, // no limit, because wheels hold all near deadlines unacknowledged
	}
}

// adopt compares the settings that are kept with the bucket with the Config, and takes the lease and the replicas from the
// bucket. cluster is the name of the cluster, or "" for a single server.
func (s *Store) adopt(bucket jetstream.StreamConfig, cluster string) error {
	lease, err := leaseOf(bucket)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	case s.cfg.Lease != 0 && s.cfg.Lease != lease:
		return fmt.Errorf("%w: its lease is %v, not %v", ErrMismatch, lease, s.cfg.Lease)
	case s.cfg.Replicas != 0 && s.cfg.Replicas != bucket.Replicas:
		return fmt.Errorf("%w: it has %d replicas, not %d", ErrMismatch, bucket.Replicas, s.cfg.Replicas)
	case s.cfg.Replicas == 0 && bucket.Replicas < 3 && cluster != "":
		return fmt.Errorf("%w: it has %d replica on the cluster %s, so the loss of one server loses deadlines; "+
			"add replicas to both streams, or set Config.Replicas to 1", ErrMismatch, bucket.Replicas, cluster)
	}
	s.cfg.Lease, s.cfg.Replicas = lease, bucket.Replicas
	return nil
}

// window is how long before a deadline a worker gets it. It is less than the lease, so a worker need not
// prolong the lease of a deadline that it holds.
func (s *Store) window() time.Duration { return s.cfg.Lease / 2 }

func (s *Store) subject(parts ...string) string {
	subject := s.cfg.Name
	for _, p := range parts {
		subject += "." + p
	}
	return subject
}

// A final error ends persist.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// persist repeats an attempt until it succeeds, returns a final error, or ctx is done. The error then wraps
// that of ctx, and the first and the last one of the attempts, because the last one may only say that time is up.
func (s *Store) persist(ctx context.Context, attempt func(context.Context) error) error {
	var first, last error
	for delay := 10 * time.Millisecond; ; delay = min(2*delay, 500*time.Millisecond) {
		limited, cancel := context.WithTimeout(ctx, requestLimit)
		err := s.explain(attempt(limited))
		cancel()
		if f := (final{}); errors.As(err, &f) {
			return f.error
		}
		if err == nil {
			return nil
		}
		if last = err; first == nil {
			first = err
		}
		select {
		case <-ctx.Done():
			if first.Error() == last.Error() {
				return fmt.Errorf("%w: %w", context.Cause(ctx), first)
			}
			return fmt.Errorf("%w: %w, and then %w", context.Cause(ctx), first, last)
		case <-time.After(delay):
		}
	}
}
