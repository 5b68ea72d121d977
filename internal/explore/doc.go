// Package explore runs a few goroutines in all possible orders of their steps. It is a tool for the tests of this
// module only. A test that uses it is a scenario: it prepares some goroutines, races them with [Scenario], and checks
// the outcome of each order. Package rewrite builds scenarios and runs them.
//
// # How it finds an order
//
// A step begins with one operation of sync/atomic, a Lock, an operation on a channel or a reading of the clock. It
// ends where the next step of the same goroutine begins. The package has types and functions that stand in for those
// of sync, sync/atomic, runtime and time. Package rewrite makes the compiler use them. Outside an exploration they do
// what the real ones do. During an exploration a goroutine stops at a gate before each such operation, and says what
// it is about to do. The explorer is the root goroutine of a bubble of testing/synctest. It waits until no other
// goroutine runs, and lets one of them continue. So one goroutine runs at a time, and the explorer chooses the order.
// It can also choose to let time pass, between any two steps, as often as the [Size] says.
//
// Without bounds, the search covers all orders. It runs each execution from the start. If several orders differ only
// in the order of independent steps, it runs one of them. Two steps are independent if they use different addresses,
// or are both loads, or are both additions whose results are not used. A compare-and-swap that fails counts as a
// load. When a check fails, the steps of that execution are printed.
//
// # What it cannot find
//
//   - Faults that need more goroutines, or other calls, than the scenario has.
//   - Faults in orders beyond the bounds of the scenario. Its log says whether orders were left out.
//   - Data races, and effects of a weaker order of memory. The package assumes that memory is sequentially
//     consistent, as Go's atomics make it, and that atomic accesses or mutexes guard all other accesses. The race
//     detector checks that they do.
//   - Orders within one step. What follows an operation, up to the next one, runs as a whole.
//   - The second case of a select of which several are possible. The package takes the first.
package explore
