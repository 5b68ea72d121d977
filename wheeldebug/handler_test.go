package wheeldebug

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
	"github.com/hashedwheel/hashedwheel/idle"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
	"github.com/hashedwheel/hashedwheel/keyed"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func newTimer(t *testing.T, opts ...hashedwheel.Option) *hashedwheel.Timer {
	t.Helper()
	timer, err := hashedwheel.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	return timer
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func get(t *testing.T, h http.Handler, target string) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

func getJSON(t *testing.T, h http.Handler) (p page) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(get(t, h, "/debug/hashedwheel?format=json")), &p))
	return p
}

func nop() {}

// Only GET and HEAD are allowed, and only two formats. A HEAD makes no page.
func TestMethods(t *testing.T) {
	timer := newTimer(t)
	h := Handler(timer)
	for _, c := range []struct {
		method, target string
		code           int
		contentType    string
	}{
		{"GET", "/", 200, "text/plain; charset=utf-8"},
		{"GET", "/?format=text", 200, "text/plain; charset=utf-8"},
		{"GET", "/?format=json", 200, "application/json"},
		{"HEAD", "/", 200, "text/plain; charset=utf-8"},
		{"HEAD", "/?format=json", 200, "application/json"},
		{"GET", "/?format=xml", 400, "text/plain; charset=utf-8"},
		{"POST", "/", 405, "text/plain; charset=utf-8"},
		{"DELETE", "/", 405, "text/plain; charset=utf-8"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.target, nil))
		require.Equal(t, c.code, w.Code, c)
		require.Equal(t, c.contentType, w.Header().Get("Content-Type"), c)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), c)
		if c.code == 405 {
			require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
		require.Equal(t, c.method == "HEAD", w.Body.Len() == 0, c)
	}
	require.Contains(t, get(t, Handler(), "/"), "go tool pprof", "a page without timers")
}

// A page that was just made is sent again.
func TestFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Handler(newTimer(t))
		first := getJSON(t, h)
		pass(fresh - 1)
		require.True(t, first.At.Equal(getJSON(t, h).At))
		pass(1)
		require.True(t, getJSON(t, h).At.Equal(first.At.Add(fresh)))
	})
}

// Requests that come together get one page.
func TestOneWalkAtATime(t *testing.T) {
	h := Handler(newTimer(t)).(*handler)
	var all, came sync.WaitGroup
	pages := make([]*page, 10)
	h.mu.Lock() // as if a page were being made
	came.Add(len(pages))
	for i := range pages {
		all.Go(func() { came.Done(); pages[i] = h.get() })
	}
	came.Wait()
	h.mu.Unlock()
	all.Wait()
	for _, p := range pages {
		require.Same(t, pages[0], p)
	}
}

// A page makes some two bytes of garbage for each pending timeout, whatever its task is. With one record for each, a page of some millions
// started a collection, which made tasks late.
func TestPageMakesLittleGarbage(t *testing.T) {
	const n = 20_000
	for name, arm := range map[string]func(timer *hashedwheel.Timer) func(i int){
		"functions": func(timer *hashedwheel.Timer) func(int) {
			return func(int) { hashedwheel.Must(timer, second(timer.AfterFunc(time.Hour, nop))) }
		},
		"types": func(timer *hashedwheel.Timer) func(int) {
			return func(int) { hashedwheel.Must(timer, second(timer.NewTimeout(new(call), time.Hour))) }
		},
		"repeating": func(timer *hashedwheel.Timer) func(int) {
			return func(int) { hashedwheel.Must(timer, second(timer.ScheduleAtFixedRate(new(call), time.Hour, time.Hour))) }
		},
		"keys": func(timer *hashedwheel.Timer) func(int) {
			m := keyed.New(timer, func(int, int) {})
			return func(i int) { hashedwheel.Must(timer, m.Set(i, i, time.Hour)) }
		},
		"functions of clock": func(timer *hashedwheel.Timer) func(int) {
			c := clock.New(timer)
			return func(int) { c.AfterFunc(time.Hour, nop) }
		},
		"timers of clock": func(timer *hashedwheel.Timer) func(int) {
			c := clock.New(timer)
			return func(int) { c.NewTimer(time.Hour) }
		},
		"connections": func(timer *hashedwheel.Timer) func(int) {
			limit, err := idle.New(timer, time.Hour)
			require.NoError(t, err)
			return func(int) {
				_, err := limit.Conn(new(conn))
				require.NoError(t, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			timer := newTimer(t)
			one := arm(timer)
			for i := range n {
				one(i)
			}
			h := Handler(timer).(*handler)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p := h.get()
			runtime.ReadMemStats(&after)
			require.Equal(t, n, p.Timers[0].Tasks[0].Pending)
			garbage := float64(after.TotalAlloc-before.TotalAlloc) / n
			t.Logf("%.1f bytes and %v for each pending timeout", garbage, p.Took/n)
			require.Less(t, garbage, 24.0) // with the race detector it is 12
		})
	}
}

func second[T any](_ T, err error) error { return err }

// A conn is never read.
type conn struct{ net.Conn }

func (*conn) Close() error                    { return nil }
func (*conn) SetReadDeadline(time.Time) error { return nil }

// To import the package registers nothing. A program decides where the page is, and who sees it.
func TestNothingIsRegistered(t *testing.T) {
	for _, path := range []string{"/", "/debug/hashedwheel"} {
		_, pattern := http.DefaultServeMux.Handler(httptest.NewRequest(http.MethodGet, path, nil))
		require.Empty(t, pattern, path)
	}
}

// Many requests come while the timer is in use.
func TestRace(t *testing.T) {
	timer := newTimer(t, hashedwheel.WithTick(time.Millisecond))
	h := Handler(timer).(*handler)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 100 {
				to, err := timer.AfterFunc(time.Duration(i)*time.Millisecond, nop)
				if err != nil {
					panic(err)
				}
				h.mu.Lock()
				h.page = nil
				h.mu.Unlock()
				get(t, h, "/")
				if i%2 == 0 {
					to.Cancel()
				}
			}
		})
	}
	all.Wait()
}
