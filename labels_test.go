package hashedwheel

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
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

// If a task changes the labels of its goroutine, that lasts until the end of the batch at most, even if the runner
// continues.
func TestLabelsThatATaskLeaves(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond), WithName("left"), WithMaxConcurrency(1))
		_, err := timer.AfterFunc(0, func() {
			time.Sleep(10 * time.Millisecond) // the next task is due meanwhile, and the same runner takes it
			pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels("user", "somebody")))
		})
		require.NoError(t, err)
		release := make(block)
		defer close(release)
		_, err = timer.NewTimeout(release, 5*time.Millisecond)
		require.NoError(t, err)
		pass(20 * time.Millisecond)
		require.EqualValues(t, 1, timer.runners.started)
		requireLabels(t, "block.Run", labelsOf("left", "runner"))
	})
}

// A labeled task runs with the labels of its context. The next task on the same goroutine runs with the labels of the
// timer, or without labels on a goroutine of an executor. This also holds if the labeled task panics.
func TestLabeled(t *testing.T) {
	jobs := make(chan func(), 10) // for the only goroutine of an executor
	for name, c := range map[string]struct {
		executor func(func()) error
		after    string
	}{
		"runners":  {nil, labelsOf("timer", "runner")},
		"refused":  {func(func()) error { return errors.New("full") }, labelsOf("timer", "runner")},
		"executor": {func(run func()) error { jobs <- run; return nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				jobs = make(chan func(), 10)
				pprof.Do(t.Context(), pprof.Labels("user", "pool"), func(context.Context) {
					go func() {
						for run := range jobs {
							run()
						}
					}()
				})
				panics := 0
				timer := newTimer(t, WithTick(time.Millisecond), WithMaxConcurrency(1), WithExecutor(c.executor),
					WithPanicHandler(func(*Timeout, any, []byte) { panics++ }))
				ctx := pprof.WithLabels(t.Context(), pprof.Labels("user", "somebody"))
				first, second := make(block), make(block)
				for _, task := range []Task{
					Labeled(ctx, first),
					Labeled(ctx, TaskFunc(func(*Timeout) { panic("on purpose") })),
					second,
				} {
					_, err := timer.NewTimeout(task, 0)
					require.NoError(t, err)
					pass(2 * time.Millisecond)
				}
				requireLabels(t, "block.Run", `{"user":"somebody"}`)
				close(first)
				synctest.Wait()
				require.Equal(t, 1, panics)
				requireLabels(t, "block.Run", c.after)
				close(second)
				synctest.Wait()
				close(jobs)
			})
		})
	}
}

// A labeled task can be repeated and canceled, and can be in a group, like a task without labels.
func TestLabeledIsATask(t *testing.T) {
	require.Nil(t, Labeled(t.Context(), nil))
	require.Nil(t, Labeled(t.Context(), TaskFunc(nil)))
	var none context.Context
	require.PanicsWithValue(t, "hashedwheel: Labeled: nil context", func() { Labeled(none, TaskFunc(func(*Timeout) {})) })
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		_, err := timer.NewTimeout(Labeled(t.Context(), nil), 0)
		require.ErrorIs(t, err, ErrNilTask)

		c := &canceler{}
		labeled := Labeled(t.Context(), c)
		for range 2 { // one task may have several timeouts
			to, err := NewGroup(timer).NewTimeout(labeled, time.Hour)
			require.NoError(t, err)
			require.Same(t, c, to.Task())
			require.True(t, to.Cancel())
		}
		runs := 0
		to, err := timer.ScheduleAtFixedRate(Labeled(t.Context(), TaskFunc(func(*Timeout) { runs++ })), 0, time.Second)
		require.NoError(t, err)
		pass(2500 * time.Millisecond)
		require.True(t, to.Cancel())
		require.Equal(t, 3, runs)
		require.EqualValues(t, 2, c.told.Load())
	})
}
