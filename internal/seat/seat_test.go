package seat

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// Few of the goroutines that run at the same time share a part. With 128 processors, the test counts those that
// share one at first, and again after each goroutine that collided with another has moved on.
func TestSeatsComeApart(t *testing.T) {
	const procs, parts, trials = 128, 256, 50
	r := testkit.Rand(t)
	first, last, changes := 0, 0, 0
	for range trials {
		table := new(Table)
		var spots [procs]spot
		for i := range spots {
			spots[i] = spotAt(uintptr(r.IntN(1<<19)) << 11) // a random stack within 1 GiB
		}
		sharing := func() (n int) {
			var users [parts]int
			for _, sp := range spots {
				users[table.part(sp, parts)]++
			}
			for _, k := range users {
				if k > 1 {
					n += k
				}
			}
			return n
		}
		first += sharing()
		for met, round := true, 0; met && round < 100; round++ { // until there are no collisions
			met = false
			for i, a := range spots {
				for _, b := range spots[:i] {
					if a != b && table.part(a, parts) == table.part(b, parts) {
						table[a.seat()].Add(1)
						changes++
						met = true
					}
				}
			}
		}
		last += sharing()
	}
	part := func(n int) float64 { return float64(n) / (procs * trials) }
	t.Logf("%.0f %% share a part at first, %.1f %% in the end, after %d moves", 100*part(first), 100*part(last), changes/trials)
	require.Less(t, part(first), 0.45)
	require.Less(t, part(last), 0.1)
}

// A nil table needs no memory, and has one part.
func TestNil(t *testing.T) {
	var none *Table
	none.Move()
	require.Zero(t, none.Part(8))
}
