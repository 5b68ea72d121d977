package explore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// An instruction of a random program is an operation on one of its variables or mutexes. Each
// goroutine records what its instructions saw.
type instruction struct {
	kind string
	on   int
}

func (in instruction) String() string { return fmt.Sprint(in.kind, in.on) }

// A machine is the state that the instructions work on. Only the model uses held and at.
type machine struct {
	vars [2]int64
	held [2]int // by mutex, the goroutine that has locked it, counted from 1
	at   [3]int
	seen [3]int64
}

var kinds = []string{"load", "store", "add", "count", "swap", "lock"}

// randomProgram returns the instructions of two or three goroutines. After each lock there is one
// more instruction, and then the unlock.
func randomProgram(r *rand.Rand) [][]instruction {
	program := make([][]instruction, 2+r.IntN(2))
	for i := range program {
		for range 2 + r.IntN(2) {
			in := instruction{kinds[r.IntN(len(kinds))], r.IntN(2)}
			program[i] = append(program[i], in)
			if in.kind == "lock" {
				inside := instruction{kinds[r.IntN(len(kinds)-1)], r.IntN(2)}
				program[i] = append(program[i], inside, instruction{"unlock", in.on})
			}
		}
	}
	return program
}

// outcome describes the final state of a machine, and what the goroutines have seen.
func (m *machine) outcome() string { return fmt.Sprint(m.vars, m.seen) }

// step executes one instruction of a goroutine in the model. It reports false if the goroutine has to wait.
func (m *machine) step(in instruction, who int) bool {
	x := &m.vars[in.on]
	saw := *x
	switch in.kind {
	case "store":
		*x, saw = int64(who+1), 0
	case "add":
		*x++
	case "count":
		*x, saw = *x+1, 0
	case "swap":
		if *x == 0 {
			*x = int64(who + 1)
		}
	case "lock":
		if m.held[in.on] != 0 {
			return false
		}
		m.held[in.on], saw = who+1, 0
	case "unlock":
		m.held[in.on], saw = 0, 0
	}
	m.seen[who] = m.seen[who]*10 + saw
	return true
}

// modeled finds the outcomes of a program by trying all orders of the instructions in the model.
func modeled(program [][]instruction) []string {
	all, been := map[string]bool{}, map[machine]bool{}
	var try func(m machine)
	try = func(m machine) {
		if been[m] {
			return
		}
		been[m] = true
		over := true
		for i, code := range program {
			if m.at[i] == len(code) {
				continue
			}
			over = false
			if next := m; next.step(code[m.at[i]], i) {
				next.at[i]++
				try(next)
			}
		}
		if over {
			all[m.outcome()] = true
		}
	}
	try(machine{})
	return slices.Sorted(maps.Keys(all))
}

// explored finds the outcomes of a program with Search.
func explored(t *testing.T, program [][]instruction) ([]string, Result) {
	return failing(t, Size{}, func() (racers []func(), outcome func() string) {
		var vars [2]Int64
		var mutexes [2]Mutex
		m := &machine{}
		for who, code := range program {
			racers = append(racers, func() {
				for _, in := range code {
					x, saw := &vars[in.on], int64(0)
					switch in.kind {
					case "load":
						saw = x.Load()
					case "store":
						x.Store(int64(who + 1))
					case "add":
						saw = x.Add(1) - 1
					case "count":
						x.BlindAdd(1)
					case "swap":
						if !x.CompareAndSwap(0, int64(who+1)) {
							saw = x.Peek() // without a gate, so still in the same step
						}
					case "lock":
						mutexes[in.on].Lock()
					case "unlock":
						mutexes[in.on].Unlock()
					}
					m.seen[who] = m.seen[who]*10 + saw
				}
			})
		}
		return racers, func() string {
			m.vars = [2]int64{vars[0].Load(), vars[1].Load()}
			return m.outcome()
		}
	})
}

// Search finds all possible outcomes of random programs, and no others.
func TestRandomPrograms(t *testing.T) {
	r := testkit.Rand(t)
	executions, redundant := 0, 0
	for range testkit.NewShare(t).Rounds(30, 150) {
		program := randomProgram(r)
		got, result := explored(t, program)
		require.NoError(t, result.Failure, "%v", program)
		require.Equal(t, modeled(program), got, "%v", program)
		executions += result.Executions
		redundant += result.Redundant
	}
	t.Log(executions, "executions and", redundant, "redundant ones")
}
