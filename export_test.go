package hashedwheel

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Helpers for the tests of package hashedwheel_test.

const Patience = patience

func NewRand(t testing.TB) *rand.Rand {
	t.Helper()
	return newRand(t)
}

func Sized[T any](short, daily, all T) T { return sized(short, daily, all) }

func GoesOn(end time.Time, seen bool) bool { return goesOn(end, seen) }

func LengthOf(t testing.TB, variable string, otherwise time.Duration) time.Duration {
	t.Helper()
	return lengthOf(t, variable, otherwise)
}
