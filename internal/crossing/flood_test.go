package crossing

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// Goroutines arm and cancel parcels as fast as they can. What the timer holds stays a small multiple of what is pending at once.

// A deluge says what each goroutine does.
type deluge struct {
	near   bool // the timeouts are due in a tick, and otherwise in hours
	random bool // a random one is canceled next, and otherwise the one that is pending for longest
	stay   bool // one in ten is not canceled
	reset  bool // each is brought forward before it is canceled
}

// lag is how many timeouts of a goroutine are pending, beside those that stay.
const lag = 32

func (d deluge) String() string {
	s := "far"
	if d.near {
		s = "near"
	}
	if d.random {
		s += ", random"
	}
	if d.stay {
		s += ", some stay"
	}
	if d.reset {
		s += ", brought forward"
	}
	return s
}

// deluges returns n of them, or at full size all.
func deluges(t *testing.T, n int) (all []deluge) {
	for _, i := range testkit.Rand(t).Perm(16)[:testkit.Sized(n, n, 16)] {
		all = append(all, deluge{i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0})
	}
	return all
}

// run arms timeouts while more returns true. It returns how many stay.
func (d deluge) run(t *testing.T, timer *hashedwheel.Timer, r *rand.Rand, more func(i int) bool) (stayed int) {
	delay, earlier := 10*time.Hour, 5*time.Hour
	if d.near {
		delay, earlier = timer.Tick()*3/2, timer.Tick()/4
	}
	var pending [lag]*parcel
	for i := 0; more(i); i++ {
		p := new(parcel)
		timer.Bind(&p.timeout, p)
		if _, err := p.timeout.Reset(delay); err != nil {
			t.Error(err)
			return stayed
		}
		if d.stay && i%10 == 0 {
			stayed++
			continue
		}
		k := i % lag
		if d.random {
			k = r.IntN(lag)
		}
		if old := pending[k]; old != nil {
			if d.reset {
				if _, err := old.timeout.Reset(earlier); err != nil {
					t.Error(err)
				}
			}
			old.timeout.Cancel()
		}
		pending[k] = p
	}
	for _, p := range pending {
		if p != nil {
			p.timeout.Cancel()
		}
	}
	return stayed
}

// perStripe is how many canceled timeouts each stripe may hold, however few were pending.
const perStripe = 1024

// stripesOf returns how many stripes a timer has.
func stripesOf(processors int) int {
	n := 8
	for n < min(2*processors, 256) {
		n *= 2
	}
	return n
}

// check checks what the timer holds after goroutines have made at most so many pending.
func (d deluge) check(t *testing.T, base uint64, armed, pending, stripes int) {
	held := (int(testkit.HeapInUse()) - int(base)) / int(unsafe.Sizeof(parcel{}))
	t.Logf("%v: %d armed, at most %d pending at once; %d held", d, armed, pending, held)
	require.LessOrEqual(t, held, 4*pending+stripes*perStripe, "held")
}

// Time stands still, so the worker does nothing, and producers drop what is canceled. One goroutine uses one stripe, and with many
// more goroutines than processors they collide.
func TestFloodWithoutTheWorker(t *testing.T) {
	for _, goroutines := range []int{1, 64} {
		for i, d := range deluges(t, testkit.Sized(1, 8, 16)) {
			t.Run(fmt.Sprintf("goroutines=%d/%v", goroutines, d), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					timer := newTimer(t, hashedwheel.WithTick(time.Hour))
					_, err := timer.AfterFunc(10*time.Hour, nop)
					require.NoError(t, err)
					testkit.Pass(time.Hour / 2)
					stripes, n := 1, 8*perStripe
					if goroutines > 1 {
						stripes = stripesOf(runtime.GOMAXPROCS(0))
						n = 3 * stripes * perStripe
					}
					base := testkit.HeapInUse()
					var users sync.WaitGroup
					var stayed atomic.Int64
					for g := range goroutines {
						users.Go(func() {
							r := rand.New(rand.NewPCG(uint64(g), uint64(i)))
							stayed.Add(int64(d.run(t, timer, r, func(i int) bool {
								if goroutines > 1 && r.IntN(32) == 0 {
									runtime.Gosched()
								}
								return i < n/goroutines
							})))
						})
					}
					users.Wait()
					d.check(t, base, n, goroutines*lag+int(stayed.Load()), stripes)
				})
			})
		}
	}
}

// The same on real time, as long as HASHEDWHEEL_STRESS says, with one processor, and with many more goroutines than
// processors.
func TestFloodHoldsLittle(t *testing.T) {
	testkit.NeedsThreads(t)
	length := testkit.StressTime(t) / 2
	for _, procs := range []int{1, runtime.GOMAXPROCS(0)} {
		for i, d := range deluges(t, 3) {
			t.Run(fmt.Sprintf("processors=%d/%v", procs, d), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				timer := newTimer(t, hashedwheel.WithTick(10*time.Millisecond))
				base := testkit.HeapInUse()
				goroutines := 64 * procs
				var users sync.WaitGroup
				var stayed, armed atomic.Int64
				end := time.Now().Add(length)
				for g := range goroutines {
					users.Go(func() {
						stayed.Add(int64(d.run(t, timer, rand.New(rand.NewPCG(uint64(g), uint64(i))), func(i int) bool {
							armed.Add(1)
							return i%64 != 0 || time.Now().Before(end)
						})))
					})
				}
				users.Wait()
				d.check(t, base, int(armed.Load()), goroutines*lag+int(stayed.Load()), stripesOf(procs))
			})
		}
	}
}

// Handles of NewTimeout are armed again after their Cancel, some times, canceled again and dropped. One at a time is pending. The timer
// holds few of them, although its tick is an hour and time stands still.
func TestArmedAgainHoldsLittle(t *testing.T) {
	for times := range testkit.Sized(2, 4, 4) {
		t.Run(fmt.Sprint(times+1), func(t *testing.T) { armAgain(t, times+1, 0, 100_000) })
	}
}

// The same at some depths of the stack. A goroutine chooses its stripe by the address of a frame.
func TestArmedAgainAtAnyDepth(t *testing.T) {
	for depth := range 64 { // some 3 KiB
		armAgain(t, 1, depth, testkit.Sized(15_000, 30_000, 300_000))
	}
}

func armAgain(t *testing.T, times, depth, n int) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := hashedwheel.New(hashedwheel.WithTick(time.Hour))
		require.NoError(t, err)
		defer timer.Stop()
		growStack()
		base := testkit.HeapInUse()
		atDepth(depth, func() {
			for range n {
				to, err := timer.AfterFunc(10*time.Hour, nop)
				if err != nil || !to.Cancel() {
					t.Fatal("not armed, or not canceled")
				}
				for range times {
					if _, err = to.Reset(10 * time.Hour); err != nil || !to.Cancel() {
						t.Fatal("not armed again, or not canceled")
					}
				}
			}
		})
		held := (int(testkit.HeapInUse()) - int(base)) / int(unsafe.Sizeof(hashedwheel.Timeout{}))
		t.Logf("depth %d: %d of %d held", depth, held, n)
		require.Less(t, held, 10_000)
		require.LessOrEqual(t, timer.Stats().Queued, 10_000)
	})
}

// growStack makes the stack of a goroutine so large that calls at any depth below use the same one.
//
//go:noinline
func growStack() {
	var frame [32 << 10]byte
	runtime.KeepAlive(&frame)
}

// atDepth calls f below some frames.
//
//go:noinline
func atDepth(depth int, f func()) {
	if depth == 0 {
		f()
		return
	}
	atDepth(depth-1, f)
	runtime.KeepAlive(&depth)
}

// The same by many more goroutines than processors, which do not pause, also beside goroutines that compute, and with more
// threads than processors, among which the system chooses. The worker gets a processor in time.
func TestArmedAgainByMany(t *testing.T) {
	testkit.NeedsThreads(t)
	for _, threads := range []int{runtime.GOMAXPROCS(0), 4 * runtime.NumCPU()} {
		for _, computing := range []int{0, 4} {
			t.Run(fmt.Sprintf("threads=%d/computing=%d", threads, computing), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
				armAgainByMany(t, threads, computing)
			})
		}
	}
}

func armAgainByMany(t *testing.T, threads, computing int) {
	timer := newTimer(t, hashedwheel.WithTick(10*time.Second))
	const goroutines = 1000
	// Two full inboxes of 1<<12 for each stripe, and one more as reserve, because no goroutine waits for longer than a second.
	limit := int64(stripesOf(threads)*3<<12 + goroutines)
	n := testkit.Sized[int64](0, 1_000_000, 20_000_000)
	if testkit.RaceDetector() {
		n /= 10 // then the worker is ten times as slow
	}
	n = max(n, 3*limit/2)
	var armed, most atomic.Int64
	var over atomic.Bool
	var users, others sync.WaitGroup
	for range computing {
		others.Go(func() {
			for x := uint64(1); !over.Load(); {
				for range 1000 {
					x = x*6364136223846793005 + 1
				}
			}
		})
	}
	for range goroutines {
		users.Go(func() {
			for armed.Add(1) <= n {
				to, err := timer.AfterFunc(10*time.Hour, nop)
				if err != nil || !to.Cancel() {
					t.Error("not armed, or not canceled")
					return
				}
				if _, err = to.Reset(10 * time.Hour); err != nil || !to.Cancel() {
					t.Error("not armed again, or not canceled")
					return
				}
				if now := armed.Load(); now%10_000 == 0 {
					queued := timer.Stats().Queued
					for range 2 { // Stats may report too many if its goroutine is preempted meanwhile
						queued = min(queued, timer.Stats().Queued)
					}
					most.Store(max(most.Load(), int64(queued)))
				}
			}
		})
	}
	users.Wait()
	over.Store(true)
	others.Wait()
	t.Logf("at most %d of %d on the queue", most.Load(), n)
	require.Less(t, most.Load(), limit)
}
