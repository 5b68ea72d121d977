package hashedwheel

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// byLabels returns the stacks of all goroutines by their labels, in the format of the profile. The empty string stands
// for goroutines without labels.
func byLabels(t *testing.T) map[string][]string {
	t.Helper()
	var profile bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
	all := make(map[string][]string)
	for group := range strings.SplitSeq(profile.String(), "\n\n") {
		labels := ""
		for line := range strings.Lines(group) {
			if after, ok := strings.CutPrefix(line, "# labels: "); ok {
				labels = strings.TrimSpace(after)
			}
		}
		all[labels] = append(all[labels], group)
	}
	return all
}

// requireLabels fails unless there are goroutines with the function on their stacks, and all of them have these
// labels.
func requireLabels(t *testing.T, function, want string) {
	t.Helper()
	found := 0
	for labels, stacks := range byLabels(t) {
		if slices.ContainsFunc(stacks, func(stack string) bool { return strings.Contains(stack, function) }) {
			require.Equal(t, want, labels, "of %s", function)
			found++
		}
	}
	require.Equal(t, 1, found, function)
}

func labelsOf(name, role string) string {
	return `{"hashedwheel":"` + name + `", "hashedwheel.role":"` + role + `"}`
}

// block is a task that waits until it is closed.
type block chan struct{}

func (b block) Run(*Timeout) { <-b }

// The worker, runners, and goroutines that notify a Canceler or submit to an executor have labels of their own, not
// those of the goroutine that started them.
func TestGoroutinesHaveTheirOwnLabels(t *testing.T) {
	for name, opts := range map[string][]Option{
		"timer":    nil,
		"executor": {WithExecutor(func(func()) error { return errors.New("full") }), WithName("executor")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(time.Millisecond))...)
				release := make(block)
				pprof.Do(t.Context(), pprof.Labels("user", "somebody"), func(context.Context) {
					_, err := timer.NewTimeout(release, 0)
					require.NoError(t, err)
					_, err = timer.AfterFunc(time.Hour, nop)
					require.NoError(t, err)
					to, err := timer.NewTimeout(&canceler{block: func() { <-release }}, time.Hour)
					require.NoError(t, err)
					require.True(t, to.Cancel())
				})
				pass(10 * time.Millisecond)
				requireLabels(t, "(*worker).run", labelsOf(name, "worker"))
				requireLabels(t, "block.Run", labelsOf(name, "runner"))
				requireLabels(t, "(*canceler).Canceled", labelsOf(name, "runner"))
				for labels := range byLabels(t) {
					require.NotContains(t, labels, "somebody")
				}
				close(release)
			})
		})
	}
}

// If a task exits its goroutine, the goroutine that continues for the runner has the labels too.
func TestLabelsAfterGoexit(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithName("exits"), WithMaxConcurrency(1))
		for range 3 {
			_, err := timer.AfterFunc(0, func() {
				pprof.SetGoroutineLabels(context.Background())
				runtime.Goexit()
			})
			require.NoError(t, err)
		}
		pass(10 * time.Millisecond)
		release := make(block)
		_, err := timer.NewTimeout(release, 0)
		require.NoError(t, err)
		pass(10 * time.Millisecond)
		requireLabels(t, "block.Run", labelsOf("exits", "runner"))
		close(release)
	})
}

// A goroutine that an executor starts in submit may be used for other work later, so it has no labels. A task that the
// executor does not take, because of an error or a panic, runs with the labels of the timer.
func TestExecutorHasNoLabels(t *testing.T) {
	for name, c := range map[string]struct {
		submit func(func()) error
		want   string
	}{
		"starts":  {func(run func()) error { go run(); return nil }, ""},
		"refuses": {func(func()) error { return errors.New("full") }, labelsOf("x", "runner")},
		"panics":  {func(func()) error { panic("on purpose") }, labelsOf("x", "runner")},
		"exits":   {func(func()) error { runtime.Goexit(); return nil }, labelsOf("x", "runner")},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				option, _ := logged()
				timer := newTimer(t, WithTick(time.Millisecond), WithName("x"), WithExecutor(c.submit), option)
				release := make(block)
				defer close(release)
				_, err := timer.NewTimeout(release, 0)
				require.NoError(t, err)
				pass(10 * time.Millisecond)
				requireLabels(t, "block.Run", c.want)
			})
		})
	}
}

// However a task changes the labels of its goroutine, the next task on it starts with the labels of the timer.
func TestLabelsThatATaskLeaves(t *testing.T) {
	somebody := pprof.WithLabels(t.Context(), pprof.Labels("user", "somebody"))
	leave := []func(){
		func() { pprof.SetGoroutineLabels(somebody) },
		func() { pprof.Do(somebody, pprof.Labels("more", "yes"), func(context.Context) {}) },
		func() { pprof.Do(somebody, pprof.Labels("more", "yes"), func(context.Context) { panic("on purpose") }) },
		func() { pprof.SetGoroutineLabels(somebody); runtime.Goexit() },
		func() { pprof.SetGoroutineLabels(context.Background()) },
	}
	for name, opts := range map[string][]Option{
		"no limit": nil,
		"one":      {WithMaxConcurrency(1)},
		"refused":  {WithMaxConcurrency(1), WithExecutor(func(func()) error { return errors.New("full") })},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				timer := newTimer(t, append(opts, WithTick(time.Millisecond), WithName("left"),
					WithPanicHandler(func(*Timeout, any, []byte) {}))...)
				var mu sync.Mutex
				var found []string
				const rounds = 4
				for range rounds { // all tasks of a round come due together
					for _, f := range leave {
						_, err := timer.AfterFunc(0, func() {
							mu.Lock()
							found = append(found, labelsOfCaller(t))
							mu.Unlock()
							f()
						})
						require.NoError(t, err)
					}
					pass(time.Millisecond)
				}
				want := slices.Repeat([]string{labelsOf("left", "runner")}, rounds*len(leave))
				require.Equal(t, want, found)
			})
		})
	}
}

// labelsOfCaller returns the labels of the calling goroutine. No other goroutine may call it at the same time.
func labelsOfCaller(t *testing.T) (found string) {
	for labels, stacks := range byLabels(t) {
		if slices.ContainsFunc(stacks, func(stack string) bool { return strings.Contains(stack, "labelsOfCaller") }) {
			found += labels
		}
	}
	return found
}
