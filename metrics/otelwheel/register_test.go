package otelwheel

import (
	"regexp"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/hashedwheel/hashedwheel"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nop() {}

func newTimer(t testing.TB, opts ...hashedwheel.Option) *hashedwheel.Timer {
	t.Helper()
	timer, err := hashedwheel.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	return timer
}

// collected returns the values that a reader collects, by the name of the metric and its attributes.
func collected(t *testing.T, reader metric.Reader) (values map[string]map[attribute.Set]float64, units map[string]string) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	values, units = make(map[string]map[attribute.Set]float64), make(map[string]string)
	for _, scope := range all.ScopeMetrics {
		require.Equal(t, "github.com/hashedwheel/hashedwheel/metrics/otelwheel", scope.Scope.Name)
		for _, m := range scope.Metrics {
			require.NotEmpty(t, m.Description, m.Name)
			points := make(map[attribute.Set]float64)
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					points[p.Attributes] = float64(p.Value)
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
			values[m.Name], units[m.Name] = points, m.Unit
		}
	}
	return values, units
}

// requireStats fails unless a reader collects the numbers of Stats of a timer. It returns those Stats.
func requireStats(t *testing.T, reader metric.Reader, name string, timer *hashedwheel.Timer) hashedwheel.Stats {
	t.Helper()
	values, _ := collected(t, reader)
	st := timer.Stats()
	key := attribute.NewSet(attribute.String("timer", name))
	for metric, want := range map[string]float64{
		"timeouts.pending":  float64(st.Pending),
		"timeouts.due":      float64(st.Due),
		"keys.waiting":      float64(st.KeysWaiting),
		"calls.stuck":       float64(st.Stuck),
		"timeouts.queued":   float64(st.Queued),
		"timeouts.accepted": float64(st.Accepted),
		"timeouts.expired":  float64(st.Expired),
		"timeouts.canceled": float64(st.Canceled),
		"timeouts.returned": float64(st.Returned),
		"tasks.running":     float64(st.Running),
		"tasks.unsubmitted": float64(st.Unsubmitted),
		"panics":            float64(st.Panics),
		"wakeups":           float64(st.Wakeups),
		"runners":           float64(st.Runners),
	} {
		got, ok := values["hashedwheel."+metric][key]
		require.True(t, ok, metric)
		require.Equal(t, want, got, metric)
	}
	for reason, want := range map[string]uint64{"full": st.RejectedFull, "stopped": st.RejectedStopped} {
		key := attribute.NewSet(attribute.String("timer", name), attribute.String("reason", reason))
		got, ok := values["hashedwheel.timeouts.rejected"][key]
		require.True(t, ok, reason)
		require.EqualValues(t, want, got, reason)
	}
	for level, l := range st.Levels {
		key := attribute.NewSet(attribute.String("timer", name), attribute.Int("level", level))
		require.EqualValues(t, l.Timeouts, values["hashedwheel.level.timeouts"][key])
		require.EqualValues(t, l.Occupied, values["hashedwheel.level.occupied_buckets"][key])
	}
	return st
}

// For two timers of one provider, a reader collects the numbers of Stats, also after a timer has been
// stopped. After Unregister it collects nothing.
func TestRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		provider := metric.NewMeterProvider(metric.WithReader(reader))
		rpc := newTimer(t, hashedwheel.WithName("rpc"), hashedwheel.WithTick(time.Millisecond), hashedwheel.WithLevels(2),
			hashedwheel.WithMaxPending(30), hashedwheel.WithMaxConcurrency(1),
			hashedwheel.WithPanicHandler(func(*hashedwheel.Timeout, any, []byte) {}))
		other := newTimer(t)
		first, err := Register(provider, rpc)
		require.NoError(t, err)
		second, err := Register(provider, other)
		require.NoError(t, err)

		for range 3 {
			_, err := rpc.AfterFunc(0, func() { time.Sleep(time.Second); panic("on purpose") })
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond) // so that each task is measured
		}
		time.Sleep(5 * time.Second)
		for range 30 {
			_, err := rpc.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
		}
		_, err = rpc.AfterFunc(0, nop)
		require.ErrorIs(t, err, hashedwheel.ErrTooManyPending)
		time.Sleep(time.Second)
		synctest.Wait()
		st := requireStats(t, reader, "rpc", rpc)
		require.Len(t, st.Levels, 2)
		require.Equal(t, 30, st.Levels[0].Timeouts+st.Levels[1].Timeouts)
		require.EqualValues(t, 3, st.Panics)
		require.Equal(t, (990+1980)*time.Millisecond, st.Lateness.Sum(), "the first task delays the others")
		requireStats(t, reader, "timer", other)

		require.Len(t, rpc.Stop(), 30)
		for range 2 {
			_, err = rpc.AfterFunc(0, nop)
			require.ErrorIs(t, err, hashedwheel.ErrStopped)
		}
		st = requireStats(t, reader, "rpc", rpc)
		require.EqualValues(t, 30, st.Returned)
		require.EqualValues(t, 1, st.RejectedFull)
		require.EqualValues(t, 2, st.RejectedStopped)

		require.NoError(t, first.Unregister())
		requireStats(t, reader, "timer", other)
		require.NoError(t, second.Unregister())
		values, _ := collected(t, reader)
		for name, points := range values {
			require.Empty(t, points, name)
		}
		require.NoError(t, provider.Shutdown(t.Context()))
	})
}

// Names and units follow the conventions of OpenTelemetry: names are in lower case, with dots and without the
// unit, and units of counts are in braces.
func TestNamesAndUnits(t *testing.T) {
	reader := metric.NewManualReader()
	timer := newTimer(t)
	_, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return timer.Stats().Levels != nil }, 10*time.Second, time.Millisecond)
	_, err = Register(metric.NewMeterProvider(metric.WithReader(reader)), timer)
	require.NoError(t, err)
	_, units := collected(t, reader)
	require.Len(t, units, len(instruments)+3)
	for name, unit := range units {
		require.Regexp(t, regexp.MustCompile(`^hashedwheel(\.[a-z][a-z_]*)+$`), name)
		require.NotRegexp(t, `total|seconds`, name)
		require.Regexp(t, `^(s|\{[a-z]+\})$`, unit, name)
	}
}

// A provider takes only one timer of each name. The error says the name. Other providers, and the provider after
// Unregister, take another one.
func TestSameName(t *testing.T) {
	var providers []*metric.MeterProvider
	for range 2 {
		providers = append(providers, metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())))
	}
	for name, label := range map[string]string{"rpc": "rpc", "": "timer"} {
		first, second := newTimer(t, hashedwheel.WithName(name)), newTimer(t, hashedwheel.WithName(name))
		var registrations []api.Registration
		for _, provider := range providers {
			registration, err := Register(provider, first)
			require.NoError(t, err)
			registrations = append(registrations, registration)
		}
		for _, timer := range []*hashedwheel.Timer{first, second} {
			_, err := Register(providers[0], timer)
			require.EqualError(t, err, `otelwheel: registering a timer with the name "`+label+
				`": the provider has a timer with this name`)
		}
		require.NoError(t, registrations[0].Unregister())
		_, err := Register(providers[0], second)
		require.NoError(t, err)
		_, err = Register(providers[1], second)
		require.Error(t, err, "the other provider still has the first timer")
	}
	for range 2 { // a program without metrics may have any number of timers
		_, err := Register(noop.NewMeterProvider(), newTimer(t))
		require.NoError(t, err)
	}
}

// A provider that is no longer used is collected as garbage with its timers, without Unregister.
func TestGarbage(t *testing.T) {
	p := func() weak.Pointer[hashedwheel.Timer] {
		timer, err := hashedwheel.New()
		require.NoError(t, err)
		_, err = Register(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())), timer)
		require.NoError(t, err)
		return weak.Make(timer)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return p.Value() == nil
	}, 10*time.Second, time.Millisecond)
}
