package crossing

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// A parcel is a timeout in a struct that is large beside all else that the timer needs for it.
type parcel struct {
	timeout hashedwheel.Timeout
	_       [1000]byte
}

func (*parcel) Run(*hashedwheel.Timeout) {}

// A load arms and cancels parcels, of a timer whose tick is an hour, in a bubble in which no time passes. So the worker does
// nothing, and only producers drop what is canceled.
type load struct {
	t       *testing.T
	timer   *hashedwheel.Timer
	mu      sync.Mutex
	sample  []weak.Pointer[parcel] // one in 64 of the canceled parcels
	pending int                    // now
	most    int                    // the most that were pending at once
	armed   int
	ended   int
}

// newLoad returns the load of a new timer. The worker has placed a first timeout, so it is idle until the next boundary.
func newLoad(t *testing.T) *load {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Hour))
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	l := &load{t: t, timer: timer}
	l.arm()
	synctest.Wait()
	return l
}

// arm arms a parcel for a long time.
func (l *load) arm() *parcel {
	p := new(parcel)
	l.timer.Bind(&p.timeout, p)
	if _, err := p.timeout.Reset(10 * time.Hour); err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed++
	l.pending++
	l.most = max(l.most, l.pending)
	return p
}

func (l *load) cancel(p *parcel) {
	if !p.timeout.Cancel() {
		l.t.Fatal("Cancel is false")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending--
	if l.ended++; l.ended%64 == 0 {
		l.sample = append(l.sample, weak.Make(p))
	}
}

// smallest is how many canceled timeouts each stripe may hold, whatever was pending.
const smallest = 4096

// check checks that the timer holds a small multiple of what was pending on each of some stripes, or nothing if two
// boundaries have passed.
func (l *load) check(base uint64, stripes int) {
	held := (int(testkit.HeapInUse()) - int(base)) / int(unsafe.Sizeof(parcel{}))
	l.t.Logf("%d armed, at most %d pending at once, %d now; %d held", l.armed, l.most, l.pending, held)
	// One more stripe, because a goroutine whose stack grows may go on to another.
	require.LessOrEqual(l.t, held, 6*l.most+(stripes+1)*smallest)

	testkit.Pass(2 * time.Hour)
	runtime.GC()
	require.NotEmpty(l.t, l.sample)
	for _, p := range l.sample {
		require.Nil(l.t, p.Value(), "held beyond the second boundary after its end")
	}
}

// However little the worker does, what a timer holds is at most a few times what was pending at once.
func TestMemoryIsBounded(t *testing.T) {
	n := testkit.Sized(20_000, 50_000, 400_000)
	stripes := stripesOf(runtime.GOMAXPROCS(0))
	loads := map[string]func(l *load) (stripes int){}
	every := testkit.Sized(3, 1, 1)
	for i, lag := range []int{1, 100, 2000} { // how many are armed until one is canceled
		for j, long := range []int{0, 2000, 10_000} { // how many are pending all the time
			if (i+j)%every != 0 {
				continue
			}
			loads[fmt.Sprintf("canceled %d later beside %d", lag, long)] = func(l *load) int {
				for range long {
					l.arm()
				}
				ring := make([]*parcel, lag)
				for i := range n {
					if p := ring[i%lag]; p != nil {
						l.cancel(p)
					}
					ring[i%lag] = l.arm()
				}
				return 1
			}
		}
	}
	loads["brought forward and canceled"] = func(l *load) int {
		ring := make([]*parcel, 1000)
		for i := range n {
			if p := ring[i%len(ring)]; p != nil {
				l.cancel(p)
			}
			p := l.arm()
			if _, err := p.timeout.Reset(5 * time.Hour); err != nil {
				t.Fatal(err)
			}
			ring[i%len(ring)] = p
		}
		return 1
	}
	loads["goroutines that come and go"] = func(l *load) int {
		const each = 2000
		for range n / each {
			var all sync.WaitGroup
			all.Go(func() {
				var ps []*parcel
				for range each {
					ps = append(ps, l.arm())
				}
				for _, p := range ps {
					l.cancel(p)
				}
			})
			all.Wait()
		}
		return stripes
	}
	loads["one arms and another cancels"] = func(l *load) int {
		c := make(chan *parcel, 100)
		var all sync.WaitGroup
		all.Go(func() {
			for p := range c {
				l.cancel(p)
			}
		})
		for range n {
			c <- l.arm()
		}
		close(c)
		all.Wait()
		return stripes
	}
	for name, use := range loads {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoad(t)
				base := testkit.HeapInUse()
				l.check(base, use(l))
			})
		})
	}
}
