package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"time"
)

// wheelSettings are fixed for the life of a timer: a change needs a new one.
type wheelSettings struct {
	TickMs int `json:"tickMs"`
	Levels int `json:"levels"`
	Size   int `json:"size"`
}

// loadSettings describe the timeouts that are armed.
type loadSettings struct {
	Rate       int     `json:"rate"`       // timeouts a second
	Canceled   float64 `json:"canceled"`   // the share of them that is canceled
	MinDelayMs int     `json:"minDelayMs"` // canceled timeouts have such delays too
	MaxDelayMs int     `json:"maxDelayMs"`
}

// A blockage is a request for tasks that block.
type blockage struct {
	Tasks   int     `json:"tasks"`
	Seconds float64 `json:"seconds"`
}

// The initial settings put timeouts on each of three rings.
var (
	startWheel = wheelSettings{TickMs: 20, Levels: 3, Size: 64}
	startLoad  = loadSettings{Rate: 2000, Canceled: 0.8, MinDelayMs: 100, MaxDelayMs: 120_000}
)

// maxBlocked bounds the tasks that block at a time. Each of them takes a goroutine.
const maxBlocked = 5000

func (s wheelSettings) check() error {
	if err := cmp.Or(
		within("tickMs", s.TickMs, 1, 1000),
		within("levels", s.Levels, 1, 3),
		within("size", s.Size, 16, 512),
	); err != nil {
		return err
	}
	if bits.OnesCount(uint(s.Size)) != 1 {
		return &fieldError{"size", fmt.Sprintf("size is %d: it must be a power of two", s.Size)}
	}
	return nil
}

func (s wheelSettings) tick() time.Duration { return time.Duration(s.TickMs) * time.Millisecond }

func (s loadSettings) check() error {
	if err := cmp.Or(
		within("rate", s.Rate, 0, 200_000),
		within("canceled", s.Canceled, 0, 1),
		within("minDelayMs", s.MinDelayMs, 1, 600_000),
		within("maxDelayMs", s.MaxDelayMs, 1, 600_000),
	); err != nil {
		return err
	}
	if s.MinDelayMs > s.MaxDelayMs {
		return &fieldError{"minDelayMs", fmt.Sprintf("minDelayMs is %d: it must not be more than maxDelayMs, %d", s.MinDelayMs, s.MaxDelayMs)}
	}
	return nil
}

// draw returns a random delay whose logarithm is uniform: 0.1 s to 1 s is as likely as 1 s to 10 s. So
// every ring gets timeouts.
func (s loadSettings) draw(rng *rand.Rand) time.Duration {
	least, most := float64(s.MinDelayMs), float64(s.MaxDelayMs)
	return time.Duration(least * math.Pow(most/least, rng.Float64()) * float64(time.Millisecond))
}

func (b blockage) check() error {
	return cmp.Or(within("tasks", b.Tasks, 1, 1000), within("seconds", b.Seconds, 0.1, 30))
}

// A fieldError says what is wrong with a field of a request.
type fieldError struct {
	Field   string `json:"field"` // empty if it is not about one
	Message string `json:"error"`
}

func (e *fieldError) Error() string { return e.Message }

func within[T int | float64](field string, v, least, most T) error {
	if v >= least && v <= most {
		return nil
	}
	return &fieldError{field, fmt.Sprintf("%s is %v: allowed is %v to %v", field, v, least, most)}
}

// decode reads one JSON object into a struct. Fields that the object does not name keep their values.
func decode(r io.Reader, to any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
		return &fieldError{Message: "the body must be one JSON object, with nothing after it"}
	}
	wrong := &json.UnmarshalTypeError{}
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return &fieldError{Message: "the body must be one JSON object with fields that may be changed: " + err.Error()}
	}
	number := "a number"
	if wrong.Type.Kind() == reflect.Int {
		number = "a whole number"
	}
	return &fieldError{wrong.Field, fmt.Sprintf("%s must be %s, not a JSON %s", wrong.Field, number, wrong.Value)}
}
