package logtext

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234: "1.23µs", 5_738 * time.Millisecond: "5.74s",
		999_950 * time.Microsecond: "1s", time.Hour: "1h0m0s", math.MaxInt64: "2561111h6m40s",
	} {
		require.Equal(t, want, Duration(d).String())
	}
}

// A user's package may be called as one of the library's, and the library may be vendored. log_test.go of the library tests
// the stacks of panics in all places where it calls a user's code.
func TestStack(t *testing.T) {
	const library = "app/vendor/example.com/wheel"
	callers := []string{library + ".(*host).", library + "/internal/pool."}
	for last, leftOut := range map[string]bool{
		library + ".(*host).Work": true, library + "/internal/pool.(*Runner[...]).run": true, "runtime.goexit": true,
		library + ".(*hosts).Work": false, library + ".host.Work": false,
		library + "/internal/pools.Run": false, library + "/internal/pool%2ev2.Run": false,
		"example.com/wheel.(*host).Work": false, "app/" + library + "/internal/pool.Run": false,
		"app/internal/pool.(*Conn).Close": false, "main.(*host).ping": false, "main.(*host[...]).ping.func1": false,
		"main.host": false, "runtime.example/x.Run": false,
	} {
		want := "main.charge (main.go:41)"
		if !leftOut {
			want += ", " + last + " (x.go:2)"
		}
		stack := "goroutine 7 [running]:\nruntime/debug.Stack()\n\t/go/stack.go:26 +0x5e\npanic({0x1, 0x2})\n\t/go/panic.go:860 +0x13a\n" +
			"runtime.panicIndex(...)\n\t/go/panic.go:115\nmain.charge(0xc0, {0x1, 0x2})\n\t/app/main.go:41 +0x1d\n" +
			last + "(0xc0?)\n\t/app/x.go:2 +0x1d\n" +
			library + "/internal/pool.(*Pool[...]).run(...)\n\t/app/pool.go:3\ncreated by main.main in goroutine 1\n\t/app/main.go:9 +0x1\n"
		require.Equal(t, want, Stack([]byte(stack), callers...), last)
	}
	stack := "goroutine 7 [running]:\npanic({0x1, 0x2})\n\t/go/panic.go:860 +0x13a\nmain.charge(0xc0)\n\t/app/main.go:41 +0x1d\n" +
		"created by main.(*shop).open in goroutine 1\n\t/app/main.go:9 +0x1\n"
	require.Equal(t, "main.charge (main.go:41)", Stack([]byte(stack), callers...), "no caller")
	for _, whole := range []string{"another form", "debug.Stack()\n\npanic()\n" + library + ".(*host).Work()\n\t/app/x.go:2"} {
		require.Equal(t, whole, Stack([]byte(whole), callers...))
	}
}

func TestSymbol(t *testing.T) {
	require.Equal(t, "runtime.GC", Symbol(runtime.GC))
	require.Equal(t, "github.com/hashedwheel/hashedwheel/internal/logtext.TestSymbol", Symbol(TestSymbol))
	require.Equal(t, "logtext.TestSymbol", Func(TestSymbol))
	require.Empty(t, Func((func())(nil)))
}
