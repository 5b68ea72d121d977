package peers

import (
	"time"

	"github.com/jellydator/ttlcache/v3"
	"github.com/maypok86/otter/v2"
	gocache "github.com/patrickmn/go-cache"
)

// A Cache is what a workload of caches drives. Keys are strings, because go-cache has no others.
type Cache interface {
	// Set adds a value, or replaces one. Its life begins with this call.
	Set(key string, value *Value)

	// Get returns nil if the key is not there, or its life is over. It does not make the life longer.
	Get(key string) *Value

	// Len returns the number of keys in memory, also of those whose life is over.
	Len() int
}

// A Value is in a cache for as long as it says.
type Value struct{ Life time.Duration }

// Caches has the peers of the workloads of caches. None has a limit of its size.
var Caches = []Peer{
	{Name: "ttlcache", NoTick: true, MakeCache: newTTLCache},
	{Name: "otter", NoTick: true, MakeCache: newOtter},
	{Name: "go-cache", NoTick: true, MakeCache: newGoCache},
}

type ttlCache struct {
	*ttlcache.Cache[string, *Value]
}

func newTTLCache(time.Duration) Cache {
	c := ttlcache.New(ttlcache.WithDisableTouchOnHit[string, *Value]())
	go c.Start()
	return ttlCache{c}
}

func (c ttlCache) Set(key string, value *Value) { c.Cache.Set(key, value, value.Life) }

func (c ttlCache) Get(key string) *Value {
	if item := c.Cache.Get(key); item != nil {
		return item.Value()
	}
	return nil
}

type otterCache struct {
	*otter.Cache[string, *Value]
}

func newOtter(time.Duration) Cache {
	life := func(e otter.Entry[string, *Value]) time.Duration { return e.Value.Life }
	return otterCache{otter.Must(&otter.Options[string, *Value]{ExpiryCalculator: otter.ExpiryWritingFunc(life)})}
}

func (c otterCache) Set(key string, value *Value) { c.Cache.Set(key, value) }

func (c otterCache) Get(key string) *Value {
	value, _ := c.GetIfPresent(key)
	return value
}

func (c otterCache) Len() int { return c.EstimatedSize() }

type goCache struct{ *gocache.Cache }

// newGoCache returns a cache that looks at all keys once a second. Its user has to choose how often.
func newGoCache(time.Duration) Cache { return goCache{gocache.New(gocache.NoExpiration, time.Second)} }

func (c goCache) Set(key string, value *Value) { c.Cache.Set(key, value, value.Life) }

func (c goCache) Get(key string) *Value {
	value, _ := c.Cache.Get(key)
	found, _ := value.(*Value)
	return found
}

func (c goCache) Len() int { return c.ItemCount() }
