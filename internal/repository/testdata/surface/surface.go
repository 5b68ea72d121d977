// Package surface has something of everything that a line of api.txt can be about.
package surface

import (
	"io"
	"iter"
	"math/rand/v2"
	"time"
)

const (
	Answer         = 42
	Limit    Level = 1 << 40
	Greeting       = "hello"
	hidden         = 1
)

var (
	ErrOne    error
	Counts, _ = map[string]int{}, hidden
	Now       = time.Now
)

type (
	Level  int64
	Option func(*config)
	Same   = Level
	config struct{ Silent, hidden bool }

	Numbers[K ~string] = Map[K, int]

	level = Level
	file  struct {
		Path string
		lock *lock
	}
	lock struct{ Held bool }
)

func Old() level             { return 0 }
func Open() *file            { return nil }
func (*file) Lock() *lock    { return nil }
func (*file) close()         {}
func Random(from *rand.Rand) {}

func (Level) String() string { return "" }
func (*Level) Set(string)    {}
func (config) Reset()        {}

type Number interface{ ~int | ~float64 }

type Task interface {
	Run(to time.Time) (ok bool, err error)
	io.Closer
}

type Sealed interface {
	Open()
	seal()
}

type Group struct {
	Name, Title string `json:"x"`
	Next        func(<-chan int, ...Level) (n int, err error)
	Parts       [4]struct{ X, Y float64 }
	io.Closer
	config
	*shared
	hidden int
}

type shared struct {
	Count int
	Title bool // a Group has its own
}

type Values struct{ less func() bool }

type Map[K comparable, V any] struct {
	Zero V
	m    map[K]V
}

func New[K comparable, V any](expired func(key K, value V), opts ...Option) *Map[K, V] { return nil }
func Sum[N Number](numbers ...N) (total N)                                             { return 0 }

func (m *Map[K, V]) Get(key K) (value V, ok bool)                     { return }
func (m Map[Key, Value]) All() iter.Seq2[Key, Value]                  { return nil }
func (m *Map[K, V]) Update(key K, f func(old V) V) (V, chan<- []byte) { return f(m.Zero), nil }
func (m *Map[K, V]) hidden()                                          {}
