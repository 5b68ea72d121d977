package hashedwheel

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each method of a Timer that New has not made panics with a clear message. So does NewKeyed or NewGroup with
// such a timer.
func TestZeroTimer(t *testing.T) {
	ctx, task := context.Background(), Task(TaskFunc(nopTask))
	arguments := map[string][]any{
		"AfterFunc":              {time.Hour, nop},
		"Buckets":                {0},
		"Init":                   {new(Timeout), task},
		"IsStopped":              {},
		"Name":                   {},
		"NewTimeout":             {task, time.Hour},
		"NewTimeoutAt":           {task, time.Now().Add(time.Hour)},
		"Pending":                {},
		"Schedule":               {task, Every(time.Hour)},
		"ScheduleAtFixedRate":    {task, time.Hour, time.Hour},
		"ScheduleWithFixedDelay": {task, time.Hour, time.Hour},
		"Shutdown":               {ctx},
		"Sleep":                  {ctx, time.Hour},
		"Stats":                  {},
		"Stop":                   {},
		"String":                 {},
		"Tick":                   {},
	}
	requireNotMade[Timer](t, notMade, arguments)
	var zero Timer
	for _, f := range []func(){
		func() { NewKeyed[int, int](&zero, nil) },
		func() { NewGroup(&zero) },
		func() { zero.Stop() },
		func() { zero.Stop() }, // a second call does not block
		func() { zero.NewTimeoutAt(task, time.Now().Add(-time.Hour)) },
		func() { zero.AfterFunc(-1, nop) },
	} {
		require.PanicsWithValue(t, notMade, f)
	}
}

// So does each method of a Group that NewGroup has not made.
func TestZeroGroup(t *testing.T) {
	task := Task(TaskFunc(nopTask))
	requireNotMade[Group](t, "hashedwheel: the Group was not made by NewGroup", map[string][]any{
		"AfterFunc":              {time.Hour, nop},
		"Cancel":                 {},
		"Close":                  {},
		"Len":                    {},
		"NewTimeout":             {task, time.Hour},
		"Schedule":               {task, Every(time.Hour)},
		"ScheduleAtFixedRate":    {task, time.Hour, time.Hour},
		"ScheduleWithFixedDelay": {task, time.Hour, time.Hour},
	})
	require.PanicsWithValue(t, "hashedwheel: NewGroup: nil Timer", func() { NewGroup(nil) })
}

// So does each method of a Keyed that NewKeyed has not made.
func TestZeroKeyed(t *testing.T) {
	requireNotMade[Keyed[int, int]](t, "hashedwheel: the Keyed was not made by NewKeyed", map[string][]any{
		"All":    {},
		"Clear":  {},
		"Get":    {1},
		"Len":    {},
		"Move":   {1, time.Hour},
		"Remove": {1},
		"Set":    {1, 2, time.Hour},
		"Touch":  {1, time.Hour},
	})
	require.PanicsWithValue(t, "hashedwheel: NewKeyed: nil Timer", func() { NewKeyed[int, int](nil, nil) })
}

// requireNotMade calls each method of a zero T, and fails unless it panics with the message. Arguments holds the
// arguments of each method.
func requireNotMade[T any](t *testing.T, message string, arguments map[string][]any) {
	t.Helper()
	methods := reflect.TypeFor[*T]()
	for i := range methods.NumMethod() {
		method := methods.Method(i)
		args, ok := arguments[method.Name]
		require.True(t, ok, "arguments for %s", method.Name)
		zero := new(T)
		for range 2 { // the first panic leaves no lock held
			in := []reflect.Value{reflect.ValueOf(zero)}
			for _, arg := range args {
				in = append(in, reflect.ValueOf(arg))
			}
			require.PanicsWithValue(t, message, func() { method.Func.Call(in) }, method.Name)
		}
	}
}
