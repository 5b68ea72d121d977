package clock_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/clock"
)

// Each packet starts an idle limit anew. Because the Clock is called time, the code of receive is the same as
// with package time.
func ExampleClock_NewTimer() {
	wheel, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer wheel.Stop()
	const idle = 20 * time.Millisecond
	time := clock.New(wheel)

	receive := func(packets <-chan string) error {
		limit := time.NewTimer(idle)
		defer limit.Stop()
		for {
			select {
			case packet := <-packets:
				limit.Reset(idle)
				fmt.Println(packet)
			case <-limit.C:
				return errors.New("idle")
			}
		}
	}
	packets := make(chan string, 2)
	packets <- "one"
	packets <- "two"
	fmt.Println(receive(packets))
	// Output:
	// one
	// two
	// idle
}

func ExampleClock_NewTicker() {
	wheel, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer wheel.Stop()
	ticker := clock.New(wheel).NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for n := range 3 {
		<-ticker.C
		fmt.Println("beat", n)
	}
	// Output:
	// beat 0
	// beat 1
	// beat 2
}
