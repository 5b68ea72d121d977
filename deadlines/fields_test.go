package deadlines

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// Settings are what verify compares.
type settings struct {
	records, wakeups jetstream.StreamInfo
	consumer         jetstream.ConsumerInfo
}

// Every field of the configurations in package jetstream is listed, also one that a later version adds. A change of a
// field that matters is a mismatch or a pause, whose text has the name of the stream or the consumer. A change of any
// other field is no fault.
func TestEveryField(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	s.Close() // so that only the test looks
	consumer, err := s.link().wakeups.Consumer(t.Context(), consumerName)
	require.NoError(t, err)
	good := settings{*s.link().records.CachedInfo(), *s.link().wakeups.CachedInfo(), *consumer.CachedInfo()}
	s.cfg.Replicas = 2 // so that one is too few
	good.records.Config.Replicas, good.wakeups.Config.Replicas = 2, 2
	verify := func(now settings) error { return s.verify(&now.records, &now.wakeups, &now.consumer) }
	require.NoError(t, verify(good))

	// Values that are wrong only together.
	special := map[string]func(now *settings, stream *jetstream.StreamConfig){
		"MaxMsgs":  func(_ *settings, c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 9, jetstream.DiscardOld },
		"MaxBytes": func(_ *settings, c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 9, jetstream.DiscardOld },
		"Discard":  func(_ *settings, c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 9, jetstream.DiscardOld },
		"PauseUntil": func(now *settings, _ *jetstream.StreamConfig) {
			now.consumer.Paused, now.consumer.Config.PauseUntil = true, new(time.Time)
		},
	}
	for _, part := range []struct {
		name   string
		fields map[string]string
		config func(*settings) any
	}{
		{s.bucketName(), recordsFields, func(now *settings) any { return &now.records.Config }},
		{s.wakeupsName(), wakeupsFields, func(now *settings) any { return &now.wakeups.Config }},
		{consumerName, consumerFields, func(now *settings) any { return &now.consumer.Config }},
	} {
		var names []string
		for f := range reflect.TypeOf(part.config(&good)).Elem().Fields() {
			names = append(names, f.Name)
			now := good
			value := reflect.ValueOf(part.config(&now)).Elem().FieldByIndex(f.Index)
			if together := special[f.Name]; together != nil {
				stream, _ := part.config(&now).(*jetstream.StreamConfig)
				together(&now, stream)
			} else {
				change(value)
			}
			err := verify(now)
			switch what := part.fields[f.Name]; what {
			case "":
				t.Errorf("fields.go does not list %s of %s", f.Name, part.name)
			case same, own:
				require.Error(t, err, "%s of %s", f.Name, part.name)
				if f.Name != "Metadata" && f.Name != "AckWait" { // these tell of the lease
					require.ErrorContains(t, err, part.name, f.Name)
				}
				if what == same {
					require.ErrorContains(t, err, " has "+nameOf(f)+"=", f.Name)
				}
			default:
				require.NoError(t, err, "%s of %s: %s", f.Name, part.name, what)
			}
		}
		require.ElementsMatch(t, names, slices.Collect(maps.Keys(part.fields)), part.name)
	}

	// What means the same as the settings of the store is no fault.
	now := good
	now.consumer.Config.FilterSubjects, now.consumer.Config.FilterSubject = []string{now.consumer.Config.FilterSubject}, ""
	now.consumer.Config.MaxRequestBatch, now.consumer.Config.MaxRequestExpires = s.pullMessages(), s.pullWait()
	now.records.Config.MaxMsgSize = 1 << 20
	now.wakeups.Config.Subjects = append(now.wakeups.Config.Subjects, "of.a.later.version")
	require.NoError(t, verify(now))
}

// change gives a field another value.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString("other")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Map:
		v.SetZero()
	case reflect.Struct:
		change(v.Field(0))
	default:
		one := reflect.ValueOf(1).Convert(v.Type())
		if v.Equal(one) {
			one = reflect.ValueOf(2).Convert(v.Type())
		}
		v.Set(one)
	}
}

// An operator changes settings that the servers accept, and with which they refuse what a store sends, or deliver nothing.
func TestSettingsThatRefuse(t *testing.T) {
	t.Parallel()
	type change func(records, wakeups *jetstream.StreamConfig, consumer *jetstream.ConsumerConfig)
	for want, change := range map[string]change{
		"KV_deadlines does not replace the revisions of a key by one (allow_rollup_hdrs)": func(c, _ *jetstream.StreamConfig, _ *jetstream.ConsumerConfig) {
			c.AllowRollup, c.SubjectDeleteMarkerTTL = false, 0 // for markers, servers turn it on
		},
		"KV_deadlines has sealed=true, not false":                    func(c, _ *jetstream.StreamConfig, _ *jetstream.ConsumerConfig) { c.Sealed = true },
		"KV_deadlines refuses messages of more than 100 bytes":       func(c, _ *jetstream.StreamConfig, _ *jetstream.ConsumerConfig) { c.MaxMsgSize = 100 },
		"asks for 256 deadlines none, because that is more than 10 ": func(_, _ *jetstream.StreamConfig, c *jetstream.ConsumerConfig) { c.MaxRequestBatch = 10 },
		"waits for 125ms none, because that is longer than 100ms ": func(_, _ *jetstream.StreamConfig, c *jetstream.ConsumerConfig) {
			c.MaxRequestExpires = 100 * time.Millisecond
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			var l log
			cfg := quick()
			cfg.Logger = l.logger()
			s := mustOpen(t, serve(t).ClientURL(), cfg)
			records, wakeups := s.link().records.CachedInfo().Config, s.link().wakeups.CachedInfo().Config
			consumer := s.consumerConfig()
			change(&records, &wakeups, &consumer)
			for _, c := range []jetstream.StreamConfig{records, wakeups} {
				_, err := s.link().js.UpdateStream(t.Context(), c)
				require.NoError(t, err)
			}
			_, err := s.link().wakeups.UpdateConsumer(t.Context(), consumer)
			require.NoError(t, err)
			requireUnsafe(t, s, &l, want)
			_, err = Open(t.Context(), s.link().nc, quick())
			require.ErrorIs(t, err, ErrMismatch)
			require.ErrorContains(t, err, want)
		})
	}
}

// Somebody makes the consumer again with a list of one filter. It delivers the same.
func TestListOfOneFilter(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, serve(t).ClientURL(), quick())
	require.NoError(t, s.link().wakeups.DeleteConsumer(t.Context(), consumerName))
	c := s.consumerConfig()
	c.FilterSubjects, c.FilterSubject = []string{c.FilterSubject}, ""
	_, err := s.link().wakeups.CreateOrUpdateConsumer(t.Context(), c)
	require.NoError(t, err)
	s = mustOpen(t, s.link().nc.ConnectedUrl(), quick())
	s.mustWork(t, nil)
	s.mustSet(t, "key", 0)
	s.awaitStatus(t, "key", Handled)
}
