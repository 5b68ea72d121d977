package hashedwheel_test

import (
	"fmt"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// The entries of a cache are removed when they have not been used for a minute. Nothing else is done then, so the
// Keyed has no callback.
func ExampleKeyed_Touch() {
	timer, err := hashedwheel.New()
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	const limit = time.Minute
	cache := hashedwheel.NewKeyed[string, int](timer, nil)
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

// When all prices have changed, Clear removes the old ones at once. None of them expires later.
func ExampleKeyed_Clear() {
	timer, err := hashedwheel.New()
	if err != nil {
		panic(err)
	}
	defer timer.Stop()

	prices := hashedwheel.NewKeyed(timer, func(article string, price int) { fmt.Println("never called") })
	for i, article := range []string{"spoke", "rim", "hub"} {
		if err := prices.Set(article, 10*i, time.Minute); err != nil {
			panic(err) // stopped, or too many pending
		}
	}
	fmt.Println("cleared:", prices.Clear())
	fmt.Println("left:", prices.Len(), "pending:", timer.Pending())
	// Output:
	// cleared: 3
	// left: 0 pending: 0
}
