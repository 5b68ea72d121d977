// Command broker measures an MQTT broker, github.com/mochi-mqtt/server, that retains very many messages, each with an
// expiry. It does so twice. As it comes, the broker copies and checks all retained messages once a second. Then package keyed
// says when each expires.
//
// Look at serve and at type expiry: they replace the check from outside, without a change of the broker.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"text/tabwriter"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/keyed"
)

// expiry is a hook of the broker. It drops retained messages when they expire.
type expiry struct {
	mqtt.HookBase
	server *mqtt.Server
	topics *keyed.Map[string, struct{}]
}

func newExpiry(server *mqtt.Server, timer *hashedwheel.Timer) *expiry {
	h := &expiry{server: server}
	h.topics = keyed.New(timer, func(topic string, _ struct{}) { h.expired(topic) })
	return h
}

func (h *expiry) ID() string { return "expiry" }

func (h *expiry) Provides(b byte) bool { return b == mqtt.OnRetainMessage }

// OnRetainMessage is called when a message has been retained, or dropped because a client has published an empty one.
func (h *expiry) OnRetainMessage(_ *mqtt.Client, pk packets.Packet, retained int64) {
	if retained == 1 && pk.Expiry > 0 {
		h.set(pk)
	} else {
		h.topics.Remove(pk.TopicName)
	}
}

func (h *expiry) set(pk packets.Packet) {
	if err := h.topics.Set(pk.TopicName, struct{}{}, time.Until(time.Unix(pk.Expiry, 0))); err != nil {
		h.server.Log.Error("message will not expire", "error", err)
	}
}

// expired drops the message of a topic. Several clients may publish one topic at the same time, and the hook of an older
// message may run last. So expired looks at the message that is there.
func (h *expiry) expired(topic string) {
	switch pk, ok := h.server.Topics.Retained.Get(topic); {
	case !ok || pk.Expiry == 0:
	case pk.Expiry > time.Now().Unix():
		h.set(pk)
	default:
		h.server.Topics.Retained.Delete(topic)
	}
}

// serve starts the broker and returns its address.
func serve(mode string) (server *mqtt.Server, address string, err error) {
	// Topics with statistics of the broker would be published once a second.
	server = mqtt.New(&mqtt.Options{Logger: slog.New(slog.DiscardHandler), SysTopicResendInterval: 3600})
	if err := server.AddHook(new(auth.AllowHook), nil); err != nil {
		return nil, "", err
	}
	listener := listeners.NewTCP(listeners.Config{ID: "tcp", Address: "127.0.0.1:0"})
	if err := server.AddListener(listener); err != nil {
		return nil, "", err
	}
	if mode == "scan" {
		return server, listener.Address(), server.Serve()
	}
	timer, err := hashedwheel.New()
	if err != nil {
		return nil, "", err
	}
	if err := server.AddHook(newExpiry(server, timer), nil); err != nil {
		return nil, "", err
	}
	// Serve would also start the loop that scans, for sessions, messages in flight and wills too. Here are none that expire.
	server.Listeners.ServeAll(server.EstablishConnection)
	return server, listener.Address(), nil
}

// modeEnv is an environment variable. It makes the process measure a broker: one that scans, or one with package keyed.
const modeEnv = "HASHEDWHEEL_BROKER"

// own measures in a process of its own.
func own(mode string, args []string) (r result, err error) {
	fmt.Fprintln(os.Stderr, "measure:", mode)
	exe, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.Command(exe, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), modeEnv+"="+mode), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%s: %w", mode, err)
	}
	return r, json.Unmarshal(out, &r)
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("broker", flag.ContinueOnError)
	var l load
	flags.IntVar(&l.messages, "messages", 500_000, "how many `messages` are retained")
	flags.IntVar(&l.rate, "rate", 2000, "how many messages are published each `second`")
	flags.DurationVar(&l.time, "time", 10*time.Second, "`how long` to measure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if mode := os.Getenv(modeEnv); mode != "" {
		r, err := l.measure(mode)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(r)
	}
	scan, err := own("scan", args)
	if err != nil {
		return err
	}
	keyed, err := own("keyed", args)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\tas it comes\twith keyed\n")
	fmt.Fprintf(table, "processors in use\t%.2f\t%.2f\n", scan.Processors, keyed.Processors)
	fmt.Fprintf(table, "from publisher to subscriber, p50\t%.1f ms\t%.1f ms\n", scan.P50, keyed.P50)
	fmt.Fprintf(table, "from publisher to subscriber, p99\t%.1f ms\t%.1f ms\n", scan.P99, keyed.P99)
	fmt.Fprintf(table, "most memory\t%.0f MB\t%.0f MB\n", scan.Peak, keyed.Peak)
	fmt.Fprintf(table, "messages that expired\t%d\t%d\n", scan.Expired, keyed.Expired)
	return table.Flush()
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && err != flag.ErrHelp {
		fmt.Fprintln(os.Stderr, "broker:", err)
		os.Exit(1)
	}
}
