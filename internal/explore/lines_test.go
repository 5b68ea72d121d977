package explore

import (
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMachine(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	m := NewMachine(2, 0, rand.New(rand.NewPCG(1, 1)))
	moves := func(processor int, line uintptr, writes bool) int {
		m.moves = 0
		m.goroutines[processor].yield = func(struct{}) bool { return true }
		m.goroutines[processor].touch(line, writes)
		return m.moves
	}
	require.Zero(t, moves(0, 1, true), "the first access")
	require.Equal(t, 1, moves(1, 1, false), "no copy")
	require.Zero(t, moves(0, 1, false), "each has a copy")
	require.Equal(t, 1, moves(1, 1, true), "not the only copy")
	require.Zero(t, moves(1, 1, true), "the only copy")
	require.Zero(t, moves(0, 2, true), "another line")
}
