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
	methods := reflect.TypeFor[*Timer]()
	for i := range methods.NumMethod() {
		method := methods.Method(i)
		args, ok := arguments[method.Name]
		require.True(t, ok, "arguments for %s", method.Name)
		for range 2 { // the first panic leaves no lock held
			in := []reflect.Value{reflect.ValueOf(new(Timer))}
			for _, arg := range args {
				in = append(in, reflect.ValueOf(arg))
			}
			require.PanicsWithValue(t, notMade, func() { method.Func.Call(in) }, method.Name)
		}
	}
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
