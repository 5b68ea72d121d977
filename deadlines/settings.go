package deadlines

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A mismatch has the settings of the servers with which the store loses deadlines, or does not keep another promise. It
// wraps ErrMismatch.
type mismatch struct {
	wrong []string
	halts bool // with these settings, workers would call handlers over and over
}

func (m mismatch) Error() string {
	text := ErrMismatch.Error() + ": " + strings.Join(m.wrong, "; ")
	if m.halts {
		text += "; the workers call no handler meanwhile"
	}
	return text
}

func (m mismatch) Unwrap() error { return ErrMismatch }

// A paused says that the consumer is paused. Nothing is lost by that, so it is no mismatch.
type paused struct{ until time.Time }

func (p paused) Error() string {
	return fmt.Sprintf("the consumer %s is paused until %s (pause_until), so no worker gets a deadline",
		consumerName, p.until.UTC().Format(time.RFC3339))
}

// verify compares the settings of the streams and the consumer with the ones that the store needs. Open and the watcher call
// it. The lists in fields.go say how each setting is compared. The result is a mismatch, a paused, or nil.
func (s *Store) verify(records, wakeups *jetstream.StreamInfo, consumer *jetstream.ConsumerInfo) error {
	var m mismatch
	wrong := func(format string, args ...any) { m.wrong = append(m.wrong, fmt.Sprintf(format, args...)) }
	if !originOf(records).same(s.bucket) {
		wrong("the stream %s was made again at %s, so all deadlines that were set before are gone; restore it from a backup "+
			"if that was not done, and start all processes again", s.bucketName(), records.Created.UTC().Format(time.RFC3339))
	}
	if s.restored {
		wrong("an earlier state of the stream %s was restored, so what was done after that backup is undone; "+
			"start all processes again", s.bucketName())
	}
	lease, err := leaseOf(records.Config)
	switch {
	case err != nil:
		wrong("%v", err)
	case lease != s.cfg.Lease:
		wrong("its lease is %v, not %v", lease, s.cfg.Lease)
	}
	for _, stream := range []struct {
		jetstream.StreamConfig
		want     jetstream.StreamConfig
		fields   map[string]string
		subjects []string
	}{
		{records.Config, jetstream.StreamConfig{Name: s.bucketName()}, recordsFields, []string{"$KV." + s.cfg.Name + ".>"}},
		{wakeups.Config, s.wakeupsConfig(), wakeupsFields, s.subjects()},
	} {
		c := stream.StreamConfig
		bad := func(format string, args ...any) { wrong("the stream %s %s", c.Name, fmt.Sprintf(format, args...)) }
		if c.MaxAge > 0 {
			bad("removes messages after %v (max_age)", c.MaxAge)
		}
		if c.Discard == jetstream.DiscardOld && (c.MaxMsgs > 0 || c.MaxBytes > 0) {
			bad("removes old messages at its limit (max_msgs=%d, max_bytes=%d, discard=old)", c.MaxMsgs, c.MaxBytes)
		}
		if c.Storage != jetstream.FileStorage {
			bad("keeps messages in %v", c.Storage)
		}
		if c.Retention != stream.want.Retention {
			bad("has the retention %v", c.Retention)
		}
		if most := s.link().nc.MaxPayload(); c.MaxMsgSize > 0 && int64(c.MaxMsgSize) < most {
			bad("refuses messages of more than %d bytes, which is less than the max_payload of the servers, %d (max_msg_size)", c.MaxMsgSize, most)
		}
		for _, subject := range stream.subjects {
			if !slices.Contains(c.Subjects, subject) {
				bad("does not keep %s (subjects)", subject)
			}
		}
		if c.Replicas < s.cfg.Replicas {
			bad("has %d replicas, not %d (num_replicas)", c.Replicas, s.cfg.Replicas)
		}
		if !c.AllowMsgTTL {
			bad("removes no single message after its time (allow_msg_ttl)")
			m.halts = true // no end of a handler can be stored
		}
		for _, text := range unlike(c, stream.want, stream.fields) {
			bad("%s", text)
		}
	}
	if !records.Config.AllowRollup {
		wrong("the stream %s does not replace the revisions of a key by one (allow_rollup_hdrs)", records.Config.Name)
		m.halts = true // no end of a handler can be stored
	}
	if has, needs := wakeups.Config.Duplicates, min(s.cfg.Timeout, maxDuplicates); has < needs {
		wrong("the stream %s drops what a Set repeats for only %v, not %v (duplicate_window)", wakeups.Config.Name, has, needs)
	}
	if !wakeups.Config.AllowMsgSchedules {
		wrong("the stream %s has no schedules (allow_msg_schedules)", wakeups.Config.Name)
	}
	c := consumer.Config
	bad := func(format string, args ...any) {
		wrong("the consumer %s %s", consumerName, fmt.Sprintf(format, args...))
	}
	if c.AckWait != s.cfg.Lease {
		wrong("its lease is %v, but the consumer waits for %v (ack_wait)", s.cfg.Lease, c.AckWait)
		m.halts = m.halts || c.AckWait < s.cfg.Lease // other workers get what a worker still has
	}
	if len(c.BackOff) > 0 {
		bad("waits for %v in place of the lease (backoff)", c.BackOff)
		m.halts = true
	}
	if c.MaxDeliver > 0 {
		bad("delivers only %d times (max_deliver)", c.MaxDeliver)
	}
	if c.MaxAckPending > 0 {
		bad("delivers only %d deadlines at a time (max_ack_pending)", c.MaxAckPending)
	}
	if c.AckPolicy != jetstream.AckExplicitPolicy {
		bad("has the ack policy %v", c.AckPolicy)
	}
	filters := slices.Clone(c.FilterSubjects)
	if c.FilterSubject != "" {
		filters = append(filters, c.FilterSubject)
	}
	if !slices.Equal(filters, []string{s.subject("due", "*")}) {
		bad("filters for %q (filter_subject)", filters)
	}
	if most := c.MaxRequestBatch; most > 0 && most < s.pullMessages() {
		bad("gives a worker that asks for %d deadlines none, because that is more than %d (max_batch)", s.pullMessages(), most)
	}
	if most := c.MaxRequestExpires; most > 0 && most < s.pullWait() {
		bad("gives a worker that waits for %v none, because that is longer than %v (max_expires)", s.pullWait(), most)
	}
	if most := c.MaxWaiting; most > 0 && most < maxWaiting {
		bad("lets only %d workers wait (max_waiting)", most)
	}
	if c.Replicas > 0 && c.Replicas < s.cfg.Replicas {
		bad("has %d replicas, not %d (num_replicas)", c.Replicas, s.cfg.Replicas)
	}
	for _, text := range unlike(c, s.consumerConfig(), consumerFields) {
		bad("%s", text)
	}
	if c.HeadersOnly {
		bad("delivers no data (headers_only)")
		m.halts = true // workers would set all aside
	}
	switch {
	case len(m.wrong) > 0:
		return m
	case consumer.Paused && c.PauseUntil != nil:
		return paused{*c.PauseUntil}
	}
	return nil
}

// The defaults of the servers, which the store keeps: how many workers may wait for a deadline, and for how long a stream
// knows the ID of a message.
const (
	maxWaiting    = 512
	maxDuplicates = 2 * time.Minute
)

// leaseOf returns the lease in the metadata of the bucket.
func leaseOf(bucket jetstream.StreamConfig) (time.Duration, error) {
	lease, err := time.ParseDuration(bucket.Metadata[leaseKey])
	if err != nil {
		return 0, fmt.Errorf("the bucket was made by another program, because its metadata has no %s", leaseKey)
	}
	return lease, nil
}

// halted reports whether the workers must not act.
func (s *Store) halted() bool {
	m, _ := s.danger().(mismatch)
	return m.halts || s.clockOff()
}
