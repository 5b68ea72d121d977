package deadlines

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A Status says what has become of a deadline.
type Status string

// The statuses of a deadline. Every change is a compare-and-set on the revision of its record, so the
// outcome of a race is one of the two:
//
//	         Set            claim            handler returned nil
//	(no key) ----> Pending --------> Running ---------------------> Handled
//	                  |   <---------
//	                  |    it returned an error
//	                  |
//	                  +--- Cancel --> Canceled
//
// Set makes a Pending record of any other. A worker whose lease has ended leaves its record Running, and the
// next worker claims it again. If that has happened several times in a row, it makes the record Pending for a while.
const (
	Pending  Status = "pending"  // its time has not come, or the handler is to be called again
	Running  Status = "running"  // a worker is calling the handler, or has died in it
	Handled  Status = "handled"  // the handler has returned nil
	Canceled Status = "canceled" // by Cancel, before a worker claimed it

	void Status = "void" // a wake-up came without its record, so the Set that sent it must begin again
)

// A Deadline is what the store knows of a key.
type Deadline struct {
	Key      string
	At       time.Time
	Payload  []byte // nil once it is Handled or Canceled
	Status   Status
	Attempts int       // calls of the handler so far, including the present one
	Error    string    // what the last call that failed returned, its first 1,000 bytes, or that workers have died in it
	Changed  time.Time // when the status changed last, by the clock of the server; not set in a handler
}

// A record is the value of a key in the bucket.
type record struct {
	Status   Status    `json:"status"`
	At       time.Time `json:"at"`
	Payload  []byte    `json:"payload,omitempty"`
	Attempts int       `json:"attempts,omitempty"`
	Error    string    `json:"error,omitempty"`

	// Token names the wake-up of this deadline, Op the last change, and By the process that made it.
	Token string `json:"token"`
	Op    string `json:"op"`
	By    string `json:"by"`
	// Delivery is the number of the delivery for which a worker claimed the deadline. Only a later
	// delivery may claim it again, because the server makes one when the lease has ended.
	Delivery uint64 `json:"delivery,omitempty"`
	// Deaths counts the last attempts in a row whose outcome is unknown, because the worker died or lost its lease.
	Deaths int `json:"deaths,omitempty"`

	// Not stored: the revision, or 0 for a key without a record, and the time at which the server stored it.
	rev    uint64
	stored time.Time
}

// open reports whether the record needs a wake-up.
func (r record) open() bool { return r.Status == Pending || r.Status == Running }

func (r record) ended() bool { return r.Status == Handled || r.Status == Canceled }

func (r record) deadline(key string) Deadline {
	return Deadline{
		Key: key, At: r.At, Payload: r.Payload, Status: r.Status,
		Attempts: r.Attempts, Error: r.Error, Changed: r.stored,
	}
}

func (r record) encode() []byte { return encode(r) }

var errRecord = errors.New("not a record")

func parseRecord(b []byte) (r record, err error) {
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%w: %w", errRecord, err)
	}
	switch r.Status {
	case Pending, Running, Handled, Canceled, void:
		return r, nil
	}
	return r, fmt.Errorf("%w: status %q", errRecord, r.Status)
}

// maxKey is the most bytes of a key. Its subject must fit into a line of the protocol. By default a server closes the
// connection after a line of more than 4,096 bytes.
const maxKey = 1024

var validKey = regexp.MustCompile(`^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$`)

func checkKey(key string) error {
	if len(key) > maxKey || !validKey.MatchString(key) {
		return fmt.Errorf("%w: it needs 1 to %d letters, digits and any of \"-/_=.\", and no dot may be first, last, or beside "+
			"another", jetstream.ErrInvalidKey, maxKey)
	}
	return nil
}

// quote quotes a text for an error or a log, and cuts it short.
func quote(s string) string {
	const most = 64
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%q... (%d bytes)", s[:most], len(s))
}

// A wakeup is a message of the stream. Its subject ends with its token.
type wakeup struct {
	Key string    `json:"key"`
	At  time.Time `json:"at"`
	// Prior is the revision that the record had before the Set that sent the wake-up, or 0.
	Prior uint64 `json:"prior"`
}

func parseWakeup(b []byte) (w wakeup, err error) {
	if err := json.Unmarshal(b, &w); err != nil {
		return w, fmt.Errorf("not a wake-up: %s: %w", quote(string(b)), err)
	}
	if err := checkKey(w.Key); err != nil {
		return w, fmt.Errorf("key %s: %w", quote(w.Key), err)
	}
	return w, nil
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a year beyond 9999, which Set refuses
	}
	return b
}
