package repository

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/keyed"
)

// The programs of docs/moving.md that need no other library are in this file, and are tested below.
func TestProgramsOfMoving(t *testing.T) {
	source, err := os.ReadFile("moved_test.go")
	require.NoError(t, err)
	doc := read(t, "docs/moving.md")
	for _, first := range []string{"type MemStore struct", "type Timer struct {\n\ttimeout", "type debouncer struct", "type message struct", "type conn struct"} {
		_, block, found := strings.Cut(doc, "```go\n"+first)
		require.True(t, found, "docs/moving.md has no program that begins with %s", first)
		block, _, _ = strings.Cut(block, "```\n")
		require.True(t, strings.Contains(string(source), "\n"+first+block), "docs/moving.md has another program than this file:\n%s%s", first, block)
	}
}

// A shared timer, as a library that is moved has one.
var wheel = hashedwheel.Must(hashedwheel.New(hashedwheel.WithTick(10 * time.Millisecond)))

// Peer stands for that of wireguard-go.
type Peer struct {
	timer *Timer
	runs  atomic.Int32
}

// A record is what tasks have done, in order.
type record struct {
	mu    sync.Mutex
	texts []string
}

func (r *record) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, text)
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.texts)
}

// channel stands for that of nsqd.
type channel struct {
	mu       sync.Mutex
	inFlight map[int]*message
	requeue  func(*message)
}

type MemStore struct{ sessions *keyed.Map[string, []byte] }

func NewMemStore(timer *hashedwheel.Timer) *MemStore {
	return &MemStore{keyed.New[string, []byte](timer, nil)}
}

func (m *MemStore) Find(token string) ([]byte, bool, error) {
	b, found := m.sessions.Get(token)
	return b, found, nil
}

func (m *MemStore) Commit(token string, b []byte, expiry time.Time) error {
	return m.sessions.SetAt(token, b, expiry)
}

func (m *MemStore) Delete(token string) error {
	m.sessions.Remove(token)
	return nil
}

func (m *MemStore) All() (map[string][]byte, error) { return maps.Collect(m.sessions.All()), nil }

type Timer struct {
	timeout hashedwheel.Timeout
	running sync.Mutex // a run that Mod has armed waits for the run before it
	expired func(*Peer)
	peer    *Peer
}

func (peer *Peer) NewTimer(expired func(*Peer)) *Timer {
	timer := &Timer{expired: expired, peer: peer}
	wheel.Bind(&timer.timeout, timer)
	return timer
}

func (timer *Timer) Run(*hashedwheel.Timeout) {
	timer.running.Lock()
	defer timer.running.Unlock()
	timer.expired(timer.peer)
}

func (timer *Timer) Mod(d time.Duration) { timer.timeout.Reset(d) }
func (timer *Timer) Del()                { timer.timeout.Cancel() }
func (timer *Timer) IsPending() bool     { return timer.timeout.IsPending() }

func (timer *Timer) DelSync() {
	timer.Del()
	timer.timeout.WaitRunning(context.Background())
	timer.Del() // the run may have called Mod
}

type debouncer struct {
	timeout hashedwheel.Timeout
	mu      sync.Mutex
	f       func()
}

func NewDebouncer(timer *hashedwheel.Timer, after time.Duration) func(f func()) {
	d := new(debouncer)
	timer.Bind(&d.timeout, d)
	return func(f func()) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.f = f
		d.timeout.Reset(after)
	}
}

func (d *debouncer) Run(to *hashedwheel.Timeout) {
	d.mu.Lock()
	f, again := d.f, to.IsPending() // again: a call came after the runner had claimed this run
	d.mu.Unlock()
	if !again {
		f()
	}
}

type message struct {
	timeout hashedwheel.Timeout
	id      int
	channel *channel
}

func (m *message) Run(to *hashedwheel.Timeout) {
	c := m.channel
	c.mu.Lock()
	mine := c.inFlight[m.id] == m && !to.IsPending() // else finished, or touched, before the lock was free
	if mine {
		delete(c.inFlight, m.id)
	}
	c.mu.Unlock()
	if mine {
		c.requeue(m)
	}
}

func (c *channel) finish(id int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.inFlight[id]
	if m != nil {
		delete(c.inFlight, id)
		m.timeout.Cancel() // the map has decided: the result does not matter
	}
	return m != nil
}

type conn struct {
	read, write hashedwheel.Timeout
	failed      func(string)
}

type (
	readTask  conn
	writeTask conn
)

func (t *readTask) Run(*hashedwheel.Timeout)  { t.failed("no data") }
func (t *writeTask) Run(*hashedwheel.Timeout) { t.failed("no room") }

func (c *conn) bind(timer *hashedwheel.Timer) {
	timer.Bind(&c.read, (*readTask)(c))
	timer.Bind(&c.write, (*writeTask)(c))
}

func TestMovedMemStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemStore(newTimer(t))
		require.NoError(t, m.Commit("a", []byte("1"), time.Now().Add(time.Second)))
		require.NoError(t, m.Commit("b", []byte("2"), time.Now().Add(time.Hour)))
		require.NoError(t, m.Commit("b", []byte("3"), time.Now().Add(time.Minute)))
		b, found, err := m.Find("b")
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, "3", string(b))
		time.Sleep(time.Second + 100*time.Millisecond)
		_, found, _ = m.Find("a")
		require.False(t, found)
		all, err := m.All()
		require.NoError(t, err)
		require.Equal(t, map[string][]byte{"b": []byte("3")}, all)
		require.NoError(t, m.Delete("b"))
		_, found, _ = m.Find("b")
		require.False(t, found)
	})
}

// A run may arm the timer again. DelSync waits for a run, and leaves nothing pending. The timer of the package is made outside
// of a bubble, so the bubble has one of its own.
func TestMovedPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := wheel
		wheel = newTimer(t)
		defer func() { wheel = old }()
		p := &Peer{}
		p.timer = p.NewTimer(func(p *Peer) {
			p.runs.Add(1)
			time.Sleep(3 * time.Second)
			p.timer.Mod(time.Second)
		})
		require.False(t, p.timer.IsPending())
		p.timer.Mod(time.Hour)
		p.timer.Mod(time.Second)
		require.True(t, p.timer.IsPending())
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 1, p.runs.Load())
		p.timer.DelSync()
		require.False(t, p.timer.IsPending())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.EqualValues(t, 1, p.runs.Load())
	})
}

// Runs of one timer do not overlap. This sleeps on real time, because a goroutine that waits for a mutex stops that of a bubble.
func TestMovedPeerRunsDoNotOverlap(t *testing.T) {
	p := &Peer{}
	var now, most atomic.Int32
	over := make(chan bool, 2)
	p.timer = p.NewTimer(func(p *Peer) {
		most.Store(max(most.Load(), now.Add(1)))
		if p.runs.Add(1) == 1 {
			p.timer.Mod(0)
			time.Sleep(100 * time.Millisecond) // the next run is due meanwhile
		}
		now.Add(-1)
		over <- true
	})
	p.timer.Mod(0)
	<-over
	<-over
	require.Equal(t, int32(1), most.Load())
}

func TestMovedDebounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		add := NewDebouncer(newTimer(t), time.Second)
		var ran record
		add(func() { ran.add("a") })
		time.Sleep(900 * time.Millisecond)
		add(func() { ran.add("b") })
		time.Sleep(900 * time.Millisecond)
		require.Empty(t, ran.all())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"b"}, ran.all())
		add(func() { ran.add("c") })
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"b", "c"}, ran.all())
	})
}

// A message that is touched or finished while its run waits for the lock does not come back. This sleeps on real time, because
// a goroutine that waits for a mutex stops that of a bubble.
func TestMovedInFlight(t *testing.T) {
	timer := newTimer(t, hashedwheel.WithTick(time.Millisecond))
	back := make(chan int, 2)
	c := &channel{inFlight: map[int]*message{}, requeue: func(m *message) { back <- m.id }}
	for id := range 2 {
		m := &message{id: id, channel: c}
		timer.Bind(&m.timeout, m)
		c.inFlight[id] = m
	}
	c.mu.Lock()
	for _, m := range c.inFlight {
		_, err := m.timeout.Reset(0)
		require.NoError(t, err)
	}
	for timer.Stats().Running < 2 { // all wait for the lock
		time.Sleep(time.Millisecond)
	}
	_, err := c.inFlight[1].timeout.Reset(time.Hour)
	require.NoError(t, err)
	c.mu.Unlock()
	require.Equal(t, 0, <-back)
	require.True(t, c.finish(1))
	require.False(t, c.finish(1))
	require.False(t, c.finish(0))
}

func TestMovedConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		var failed record
		c := &conn{failed: failed.add}
		c.bind(timer)
		_, err := c.write.Reset(time.Second)
		require.NoError(t, err)
		_, err = c.read.Reset(2 * time.Second)
		require.NoError(t, err)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"no room"}, failed.all())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"no room", "no data"}, failed.all())
	})
}
