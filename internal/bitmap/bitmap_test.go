package bitmap

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// The set agrees with a slice of booleans.
func TestModel(t *testing.T) {
	r := testkit.Rand(t)
	for range 100 {
		size := 1 + r.IntN(300)
		set, want := New(size), make([]bool, size)
		for range 200 {
			i := r.IntN(size)
			if want[i] = r.IntN(4) == 0; want[i] {
				set.Set(uint64(i))
			} else {
				set.Clear(uint64(i))
			}
			require.Equal(t, want[i], set.Has(uint64(i)))
			from := r.IntN(size + 1)
			end := from + r.IntN(size+1-from)
			next := slices.Index(want[from:end], true) + from
			if next < from {
				next = end
			}
			require.EqualValues(t, next, set.Next(uint64(from), uint64(end)))
		}
	}
}
