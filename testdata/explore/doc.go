// Package explore runs a few goroutines in all orders in which their steps can come. It is a tool of
// the tests of this module, and of nobody else.
//
// A step is one operation of sync/atomic, a Lock, an operation on a channel or a look at the clock,
// and all that its goroutine does from there to the next. The package has types and functions that
// stand in for those of sync, sync/atomic, runtime and time, and TestExplore of the module's root has
// the compiler take them instead. Outside an exploration they do what the real ones do. During one, a
// goroutine stops at a gate before each operation, and says what it is about to do; the explorer,
// which is the root goroutine of a bubble of testing/synctest, waits until nobody runs any more and
// lets one go on. So there is one goroutine at a time, and the order is the explorer's choice. Time is
// one of those it can choose: it may pass between any two steps, as often as the Options say.
//
// The search is exhaustive, each execution from the start. Of orders that differ only in that of
// independent steps it runs one. These are steps on different addresses, two loads, and two additions
// whose results nobody looks at; a compare-and-swap that fails is a load.
//
// What it takes for granted: memory is sequentially consistent, as Go's atomics make it, and what is
// not atomic is guarded by what is, which is for the race detector to find. In a select in which
// several cases are possible the first is taken.
package explore
