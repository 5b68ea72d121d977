package keyed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/keyed"
)

// Sessions end when they have not been used for a while.
func Example() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	ended := make(chan string)
	sessions := keyed.New(timer, func(id string, user string) { ended <- user })
	if err := sessions.Set("a7", "Ada", time.Minute); err != nil {
		panic(err) // stopped, or too many pending
	}
	if err := sessions.Set("b3", "Ben", 10*time.Millisecond); err != nil {
		panic(err)
	}
	sessions.Touch("a7", 2*time.Minute) // the user was active

	fmt.Println("idle:", <-ended)
	fmt.Println("left:", sessions.Len())
	user, ok := sessions.Remove("a7")
	fmt.Println("logged out:", user, ok)
	// Output:
	// idle: Ben
	// left: 1
	// logged out: Ada true
}

// A debounce: a file is saved when it has not changed for a while, with its last text.
func ExampleMap_Set() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	saved := make(chan bool)
	changes := keyed.New(timer, func(file, text string) {
		fmt.Println(file, text)
		close(saved)
	})
	quiet := time.Minute
	for _, text := range []string{"h", "he", "hello"} {
		if text == "hello" {
			quiet = 5 * time.Millisecond // so that this example ends soon
		}
		if err := changes.Set("a.txt", text, quiet); err != nil { // replaces text and deadline
			panic(err) // stopped, or too many pending
		}
	}
	<-saved
	// Output: a.txt hello
}

// The entries of a cache are removed when they have not been used for a minute. Nothing else is done then, so the
// Map has no callback.
func ExampleMap_Touch() {
	timer, err := hashedwheel.New()
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	const limit = time.Minute
	cache := keyed.New[string, int](timer, nil)
	length := func(word string) int {
		n, ok := cache.Touch(word, limit) // the entry has another minute from now
		if !ok {
			n = len(word) // or a longer computation
			if err := cache.Set(word, n, limit); err != nil {
				fmt.Println("not kept:", err) // stopped, or too many pending
			}
		}
		fmt.Println(word, n, "known:", ok)
		return n
	}
	length("wheel")
	length("wheel")
	// Output:
	// wheel 5 known: false
	// wheel 5 known: true
}

// A message that is delivered twice within ten minutes is handled once.
func ExampleMap_GetOrSet() {
	timer, err := hashedwheel.New()
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	handled := keyed.New[string, struct{}](timer, nil)
	for _, id := range []string{"m1", "m2", "m1"} {
		_, again, err := handled.GetOrSet(id, struct{}{}, 10*time.Minute)
		if err != nil {
			panic(err) // stopped, or too many pending
		}
		fmt.Println(id, "again:", again)
	}
	// Output:
	// m1 again: false
	// m2 again: false
	// m1 again: true
}

// A message that is in flight belongs to one client, and another client must not finish it. RemoveIf looks at the message and
// removes it in one step. With Get and Remove, the message could expire and go to another client in between.
func ExampleMap_RemoveIf() {
	timer, err := hashedwheel.New()
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	inFlight := keyed.New(timer, func(message, client string) { fmt.Println("deliver again:", message) })
	if err := inFlight.Set("m1", "Ada", time.Minute); err != nil {
		panic(err) // stopped, or too many pending
	}
	for _, client := range []string{"Ben", "Ada"} {
		_, ok := inFlight.RemoveIf("m1", func(owner string) bool { return owner == client })
		fmt.Println(client, "has finished it:", ok)
	}
	// Output:
	// Ben has finished it: false
	// Ada has finished it: true
}

// A lease ends at a time that another program has chosen. A renewal says the next one.
func ExampleMap_SetAt() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	ended := make(chan string)
	leases := keyed.New(timer, func(id string, holder string) { ended <- holder })
	until := time.Now().Add(time.Minute) // as read from a message
	if err := leases.SetAt("lock-1", "Ada", until); err != nil {
		panic(err) // the zero Time, stopped, closed, or too many pending
	}
	if _, ok := leases.TouchAt("lock-1", until.Add(time.Minute)); ok {
		fmt.Println("renewed")
	}
	leases.TouchAt("lock-1", time.Now()) // given back
	fmt.Println("ended:", <-ended)
	// Output:
	// renewed
	// ended: Ada
}

// A client asks for more time for a message that is in flight. It gets it only if the message is its own, and at most up to a
// limit. TouchIf looks at the message and moves its deadline in one step.
func ExampleMap_TouchIf() {
	timer, err := hashedwheel.New()
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	type message struct {
		client string
		limit  time.Time
	}
	inFlight := keyed.New(timer, func(id string, _ message) { fmt.Println("deliver again:", id) })
	if err := inFlight.Set("m1", message{"Ada", time.Now().Add(time.Hour)}, time.Minute); err != nil {
		panic(err) // stopped, closed, or too many pending
	}
	touch := func(id, client string, delay time.Duration) bool {
		_, ok := inFlight.TouchIf(id, delay, func(m message, deadline time.Time) bool {
			until := time.Now().Add(delay)
			return m.client == client && until.After(deadline) && until.Before(m.limit)
		})
		return ok
	}
	fmt.Println("Ben:", touch("m1", "Ben", 10*time.Minute))
	fmt.Println("Ada:", touch("m1", "Ada", 10*time.Minute))
	fmt.Println("Ada, for a minute:", touch("m1", "Ada", time.Minute)) // would be sooner
	fmt.Println("Ada, for a day:", touch("m1", "Ada", 24*time.Hour))
	// Output:
	// Ben: false
	// Ada: true
	// Ada, for a minute: false
	// Ada, for a day: false
}

// A queue is closed. Each message that was in flight is either delivered again by then, or stored.
func ExampleMap_Close() {
	timer, err := hashedwheel.New() // which other queues use too
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	inFlight := keyed.New(timer, func(id, text string) { fmt.Println("deliver again:", id) })
	if err := inFlight.Set("m1", "hello", time.Minute); err != nil {
		panic(err) // stopped, closed, or too many pending
	}
	for _, message := range inFlight.Close() {
		fmt.Println("store:", message.Key, message.Value)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := inFlight.WaitRunning(ctx); err != nil { // for deliveries that had begun
		panic(err)
	}
	err = inFlight.Set("m2", "late", time.Minute)
	fmt.Println(err, errors.Is(err, keyed.ErrClosed))
	// Output:
	// store: m1 hello
	// keyed: the Map is closed true
}

// Each session is stored when it expires, which takes a while. At most two are stored at a time, however many expire at once.
func ExampleWithConcurrency() {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	const sessions = 10
	var running atomic.Int32
	var stored sync.WaitGroup
	stored.Add(sessions)
	store := func(id int, user string) {
		defer stored.Done()
		if n := running.Add(1); n > 2 {
			fmt.Println("never printed:", n)
		}
		time.Sleep(time.Millisecond) // writes to a database
		running.Add(-1)
	}
	m := keyed.New(timer, store, keyed.WithConcurrency(2))
	for id := range sessions {
		if err := m.Set(id, "Ada", 5*time.Millisecond); err != nil {
			panic(err) // stopped, or too many pending
		}
	}
	stored.Wait()
	fmt.Println("all sessions are stored")
	// Output: all sessions are stored
}

// When all prices have changed, Clear removes the old ones at once. None of them expires later.
func ExampleMap_Clear() {
	timer, err := hashedwheel.New()
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	prices := keyed.New(timer, func(article string, price int) { fmt.Println("never called") })
	for i, article := range []string{"spoke", "rim", "hub"} {
		if err := prices.Set(article, 10*i, time.Minute); err != nil {
			panic(err) // stopped, or too many pending
		}
	}
	prices.Clear()
	fmt.Println("left:", prices.Len(), "pending:", timer.Pending())
	// Output:
	// left: 0 pending: 0
}

// After Stop, All still has the keys that were left.
func ExampleMap_All() {
	timer, err := hashedwheel.New()
	if err != nil {
		panic(err)
	}
	peers := keyed.New[string, int](timer, nil)
	for i, address := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		if err := peers.Set(address, i+1, time.Minute); err != nil {
			panic(err)
		}
	}
	timer.Stop()
	sum := 0
	for _, weight := range peers.All() {
		sum += weight
	}
	fmt.Println("weight of all:", sum)
	// Output: weight of all: 6
}
