package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The names on the servers.
const (
	bucketName   = "orders"
	streamName   = "DEADLINES"
	consumerName = "fleet"
	atSubject    = "deadlines.at."  // with an order id: a far deadline
	dueSubject   = "deadlines.due." // with an order id: a near deadline
	paidSubject  = "deadline-hints.paid"
)

// history is the number of states that the bucket keeps of an order. An order should have two at
// most, and the check would see more.
const history = 8

// deadlines puts the deadlines of orders into the stream, and takes them out of it.
type deadlines struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	window time.Duration // before the deadline, at which the message goes to a worker
}

// place puts a deadline into the stream. It may be called twice for an order: a schedule replaces the
// previous one, and workers recognize duplicates.
func (d *deadlines) place(ctx context.Context, id string, deadline time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	msg := nats.NewMsg(dueSubject + id)
	msg.Data = []byte(deadline.UTC().Format(time.RFC3339Nano))
	if far := deadline.Add(-d.window); time.Until(far) > 0 {
		msg.Subject = atSubject + id
		msg.Header.Set(jetstream.ScheduleHeader, at(far))
		msg.Header.Set(jetstream.ScheduleTargetHeader, dueSubject+id)
		// Without this header the server decides how long the message waits for a worker.
		msg.Header.Set(jetstream.ScheduleTTLHeader, "never")
	}
	_, err := d.js.PublishMsg(ctx, msg)
	return err
}

// at returns the schedule for a time. jetstream.WithScheduleAt would drop the fraction of the
// second, and the message would come early by that fraction.
func at(t time.Time) string { return "@at " + t.UTC().Format(time.RFC3339Nano) }

// withdraw removes the deadline of a paid order from the stream, or from the wheel that holds it if
// the deadline is near. It misses a deadline that is just being handed on, and one whose message is lost.
// Then a worker finds the order paid when the deadline comes.
func (d *deadlines) withdraw(ctx context.Context, id string, deadline time.Time) (near bool, err error) {
	if time.Until(deadline) <= d.window {
		return true, d.nc.Publish(paidSubject, []byte(id)) // does not wait for an answer
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return false, d.stream.Purge(ctx, jetstream.WithPurgeSubject(atSubject+id))
}

// A dueMessage is a deadline that was delivered to a worker.
type dueMessage struct {
	msg      jetstream.Msg
	id       string // of the order
	deadline time.Time
	sequence uint64 // in the stream
	delivery int    // 1, 2, 3 and so on
}

func parseDue(msg jetstream.Msg) (d dueMessage, err error) {
	meta, err := msg.Metadata()
	if err != nil {
		return d, err
	}
	id, ok := strings.CutPrefix(msg.Subject(), dueSubject)
	if !ok || id == "" {
		return d, fmt.Errorf("subject %q: it must begin with %q", msg.Subject(), dueSubject)
	}
	deadline, err := time.Parse(time.RFC3339Nano, string(msg.Data()))
	if err != nil {
		return d, err
	}
	return dueMessage{msg: msg, id: id, deadline: deadline, sequence: meta.Sequence.Stream, delivery: int(meta.NumDelivered)}, nil
}

// setUp makes or updates the stream of the deadlines, its consumer and the bucket. With
// 0 replicas it keeps the present number, so that a process that joins a cluster does not remove
// replicas. If there is no stream yet, that means one replica.
func setUp(ctx context.Context, js jetstream.JetStream, lease time.Duration, replicas int) error {
	var firstErr error // says more than the last error, which may only be the end of ctx
	attempt := func(ctx context.Context) (err error) {
		defer func() {
			if firstErr == nil {
				firstErr = err
			}
		}()
		ctx, cancel := context.WithTimeout(ctx, 2*attemptTimeout)
		defer cancel()
		replicas := replicas
		if replicas == 0 {
			replicas = 1
			switch s, err := js.Stream(ctx, streamName); {
			case err == nil:
				replicas = s.CachedInfo().Config.Replicas
			case !errors.Is(err, jetstream.ErrStreamNotFound):
				return err
			}
		}
		_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name:              streamName,
			Subjects:          []string{atSubject + "*", dueSubject + "*"},
			Retention:         jetstream.WorkQueuePolicy, // an acknowledged message is gone
			Storage:           jetstream.FileStorage,
			Replicas:          replicas,
			AllowMsgSchedules: true,
			AllowMsgTTL:       true, // for ScheduleTTLHeader
		})
		if err == nil {
			_, err = js.CreateOrUpdateConsumer(ctx, streamName, jetstream.ConsumerConfig{
				Durable:       consumerName,
				FilterSubject: dueSubject + "*",
				AckPolicy:     jetstream.AckExplicitPolicy,
				AckWait:       lease,
				MaxDeliver:    -1,
				MaxAckPending: -1, // no limit, because wheels hold all near deadlines unacknowledged
			})
		}
		if err == nil {
			_, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
				Bucket: bucketName, History: history, Storage: jetstream.FileStorage, Replicas: replicas,
			})
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := persist(ctx, attempt); err != nil {
		return errors.Join(fmt.Errorf("set up: %w", err), firstErr)
	}
	return nil
}
