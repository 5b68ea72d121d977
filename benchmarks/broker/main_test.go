package main

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/hashedwheel/hashedwheel"
)

// TestMain makes this binary measure if it is asked to, as main does.
func TestMain(m *testing.M) {
	if os.Getenv(modeEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// virtual calls f with a broker and its hook, on the time of a bubble.
func virtual(t *testing.T, f func(t *testing.T, server *mqtt.Server, h *expiry)) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := hashedwheel.New()
		if err != nil {
			t.Fatal(err)
		}
		defer timer.Stop()
		server := mqtt.New(nil)
		f(t, server, newExpiry(server, timer))
	})
}

// message returns a message that expires after some seconds. Without a payload, it drops the one that is retained.
func message(payload string, life time.Duration) packets.Packet {
	return packets.Packet{TopicName: "a", Payload: []byte(payload), Expiry: time.Now().Add(life).Unix()}
}

// A message is there until it expires, and for one tick more at most.
func TestExpiry(t *testing.T) {
	virtual(t, func(t *testing.T, server *mqtt.Server, h *expiry) {
		pk := message("x", 5*time.Second)
		h.OnRetainMessage(nil, pk, server.Topics.RetainMessage(pk))
		time.Sleep(5*time.Second - 1)
		if n := server.Topics.Retained.Len(); n != 1 {
			t.Errorf("%d messages before the expiry", n)
		}
		time.Sleep(100*time.Millisecond + 1)
		synctest.Wait()
		if n := server.Topics.Retained.Len(); n != 0 {
			t.Errorf("%d messages after the expiry", n)
		}
	})
}

// If the hook of an older message runs last, the newer message still expires at its own time.
func TestHooksOutOfOrder(t *testing.T) {
	virtual(t, func(t *testing.T, server *mqtt.Server, h *expiry) {
		older, newer := message("x", 5*time.Second), message("y", 20*time.Second)
		server.Topics.RetainMessage(older)
		server.Topics.RetainMessage(newer)
		h.OnRetainMessage(nil, newer, 1)
		h.OnRetainMessage(nil, older, 1)
		time.Sleep(20*time.Second - 1)
		if n := server.Topics.Retained.Len(); n != 1 {
			t.Errorf("%d messages before the expiry of the newer one", n)
		}
		time.Sleep(100*time.Millisecond + 1)
		synctest.Wait()
		if n := server.Topics.Retained.Len(); n != 0 {
			t.Errorf("%d messages after the expiry", n)
		}
	})
}

// A message that was dropped is no longer in the Map.
func TestDropped(t *testing.T) {
	virtual(t, func(t *testing.T, server *mqtt.Server, h *expiry) {
		for _, payload := range []string{"x", ""} {
			pk := message(payload, 5*time.Second)
			h.OnRetainMessage(nil, pk, server.Topics.RetainMessage(pk))
		}
		if n := h.topics.Len(); n != 0 {
			t.Errorf("%d topics in the Map", n)
		}
	})
}

// Both brokers drop exactly the messages that expire, and the table has the figures of both. The time is real, because the
// brokers are processes.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	var out strings.Builder
	if err := run([]string{"-messages", "2000", "-time", "1s"}, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 7 {
		t.Fatal(out.String())
	}
	for _, line := range lines[1:6] {
		if strings.HasSuffix(line, " 0") || strings.Contains(line, " 0 ") {
			t.Errorf("no figure: %s", line)
		}
	}
}
