package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// A load says what the broker has to do. It retains messages that live for an hour. While it is measured, half of what is
// published replaces one of these, and half is new and lives for some seconds. One subscriber gets all of it.
type load struct {
	messages int
	rate     int // a second
	time     time.Duration
}

// A result is what a load has shown. The process has the broker and the load.
type result struct {
	Processors float64 // in use
	P50, P99   float64 // ms, from when a message should be published to when the subscriber has it
	Peak       float64 // MB, the most that was resident
	Expired    int
}

const (
	step     = 10 * time.Millisecond // the load publishes some messages at once in each step
	longest  = 5                     // seconds that new messages live, at most
	patience = time.Minute           // for what comes late
)

// measure runs the broker and the load.
func (l load) measure(mode string) (r result, err error) {
	server, address, err := serve(mode)
	if err != nil {
		return r, err
	}
	publisher, err := connect(address, "publisher")
	if err != nil {
		return r, err
	}
	defer publisher.Close()
	for i := range l.messages {
		if err := publisher.publish(i, time.Now(), time.Hour); err != nil {
			return r, err
		}
	}
	if err := publisher.ping(); err != nil { // the broker has got them all when it answers
		return r, err
	}
	subscriber, err := connect(address, "subscriber")
	if err != nil {
		return r, err
	}
	defer subscriber.Close()
	if err := subscriber.subscribe(); err != nil {
		return r, err
	}
	time.Sleep(3 * time.Second)

	retained := server.Topics.Retained.Len()
	cpu, _ := used()
	steps, perStep := int(l.time/step), max(2, l.rate/int(time.Second/step))
	received := make(chan []float64)
	go func() { received <- subscriber.receive(steps * perStep) }()
	began := time.Now()
	for i := range steps {
		at := began.Add(time.Duration(i) * step)
		time.Sleep(time.Until(at))
		for j := range perStep {
			topic, life := rand.IntN(l.messages), time.Hour
			if j%2 == 0 {
				topic, life = l.messages+i*perStep+j, time.Duration(1+rand.IntN(longest))*time.Second
				r.Expired++
			}
			if err := publisher.publish(topic, at, life); err != nil {
				return r, err
			}
		}
		if err := publisher.Flush(); err != nil {
			return r, err
		}
	}
	now, _ := used()
	r.Processors = float64(now-cpu) / float64(time.Since(began))
	end := time.Now().Add(longest*time.Second + patience)
	subscriber.SetReadDeadline(end)
	times := <-received
	if n := steps * perStep; len(times) < n {
		return r, fmt.Errorf("the subscriber has got %d of %d messages", len(times), n)
	}
	for server.Topics.Retained.Len() > retained && time.Now().Before(end) {
		time.Sleep(step)
	}
	if more := server.Topics.Retained.Len() - retained; more != 0 {
		return r, fmt.Errorf("%d messages more than before: not all have expired, or others too", more)
	}
	slices.Sort(times)
	r.P50, r.P99 = times[len(times)/2], times[len(times)*99/100]
	_, r.Peak = used()
	return r, nil
}

// used returns the CPU time of the process, user and system, and the most memory that was resident, in MB.
func used() (cpu time.Duration, peak float64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	peak = float64(u.Maxrss)
	if runtime.GOOS != "darwin" {
		peak *= 1024 // in KiB, except on macOS
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), peak / 1e6
}

// A client is a connection to the broker.
type client struct {
	net.Conn
	*bufio.Reader
	*bufio.Writer
	buf bytes.Buffer
}

// version is that of the protocol. Messages have an expiry from this version on.
const version = 5

func connect(address, id string) (*client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &client{Conn: conn, Reader: bufio.NewReader(conn), Writer: bufio.NewWriterSize(conn, 1<<16)}
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: version}
	pk.Connect = packets.ConnectParams{ProtocolName: []byte("MQTT"), Clean: true, ClientIdentifier: id}
	return c, c.call(pk.ConnectEncode, packets.Connack)
}

func (c *client) ping() error {
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}, ProtocolVersion: version}
	return c.call(pk.PingreqEncode, packets.Pingresp)
}

// subscribe subscribes to all topics, without the messages that are retained already.
func (c *client) subscribe() error {
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, ProtocolVersion: version, PacketID: 1}
	pk.Filters = packets.Subscriptions{{Filter: "devices/+", RetainHandling: 2}}
	return c.call(pk.SubscribeEncode, packets.Suback)
}

// publish publishes a retained message with the time at which it should be published.
func (c *client) publish(topic int, at time.Time, life time.Duration) error {
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Retain: true}, ProtocolVersion: version,
		TopicName: fmt.Sprintf("devices/%08d", topic),
		Payload:   binary.BigEndian.AppendUint64(make([]byte, 0, 64), uint64(at.UnixNano()))[:64],
	}
	pk.Properties.MessageExpiryInterval = uint32(max(1, life/time.Second))
	return c.send(pk.PublishEncode)
}

func (c *client) send(encode func(*bytes.Buffer) error) error {
	c.buf.Reset()
	if err := encode(&c.buf); err != nil {
		return err
	}
	_, err := c.Writer.Write(c.buf.Bytes())
	return err
}

// call sends a packet and waits for the answer.
func (c *client) call(encode func(*bytes.Buffer) error, answer byte) error {
	if err := errors.Join(c.send(encode), c.Flush()); err != nil {
		return err
	}
	header, _, err := c.receivePacket()
	if err == nil && header.Type != answer {
		err = fmt.Errorf("got a %s for a %s", packets.PacketNames[header.Type], packets.PacketNames[answer])
	}
	return err
}

func (c *client) receivePacket() (header packets.FixedHeader, body []byte, err error) {
	first, err := c.ReadByte()
	if err != nil {
		return header, nil, err
	}
	if err := header.Decode(first); err != nil {
		return header, nil, err
	}
	if header.Remaining, _, err = packets.DecodeLength(c.Reader); err != nil {
		return header, nil, err
	}
	body = make([]byte, header.Remaining)
	_, err = io.ReadFull(c.Reader, body)
	return header, body, err
}

// receive returns how long each of n messages took, in milliseconds. It returns fewer if no more come.
func (c *client) receive(n int) (times []float64) {
	for len(times) < n {
		header, body, err := c.receivePacket()
		if err != nil {
			return times
		}
		pk := packets.Packet{FixedHeader: header, ProtocolVersion: version}
		if header.Type != packets.Publish || pk.PublishDecode(body) != nil || len(pk.Payload) < 8 {
			return times
		}
		at := time.Unix(0, int64(binary.BigEndian.Uint64(pk.Payload)))
		times = append(times, float64(time.Since(at))/1e6)
	}
	return times
}
