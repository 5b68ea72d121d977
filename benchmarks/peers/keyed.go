//go:build !withoutkeyed

package peers

import (
	"time"

	"github.com/hashedwheel/hashedwheel/keyed"
)

// Some commits of best-commits.txt have no package keyed. There, -best builds without this file.
func init() {
	Caches = append([]Peer{{Name: "hashedwheel, keyed", Ours: true, MakeCache: newKeyed}}, Caches...)
}

type keyedMap struct {
	*keyed.Map[string, *Value]
}

func newKeyed(tick time.Duration) Cache {
	return keyedMap{keyed.New[string, *Value](NewWheel(tick).Timer, nil)}
}

func (m keyedMap) Set(key string, value *Value) {
	if err := m.Map.Set(key, value, value.Life); err != nil {
		panic(err)
	}
}

func (m keyedMap) Get(key string) *Value {
	value, _ := m.Map.Get(key)
	return value
}
