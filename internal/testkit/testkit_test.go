package testkit

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A model ends when its share of time is over, but not before it has done the least that it must. At full size, and when
// it repeats a seed, it does all.
func TestRounds(t *testing.T) {
	for _, c := range []struct {
		name, variable, value string
		passed                time.Duration // of the share, before the model begins
		want                  int
	}{
		{"in time", "", "", 0, 10},
		{"late", "", "", time.Hour, 3},
		{"full", "HASHEDWHEEL_FULL", "1", time.Hour, 10},
		{"seed", "HASHEDWHEEL_SEED", "1", time.Hour, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("HASHEDWHEEL_FULL", "")
			t.Setenv("HASHEDWHEEL_SEED", "")
			if c.variable != "" {
				t.Setenv(c.variable, c.value)
			}
			s := NewShare(t)
			if !s.end.IsZero() {
				s.end = s.end.Add(-c.passed)
			}
			n := 0
			for i := range s.Rounds(3, 10) {
				require.Equal(t, n, i)
				n++
			}
			require.Equal(t, c.want, n)
			require.Equal(t, Share{s.end, c.want, 10}, *s)
			for range s.Rounds(3, 10) {
				break
			}
			require.Equal(t, 20, s.most)
		})
	}
}

func TestMain(m *testing.M) { Main(m) }

// hang is the variable that makes a test of TestWatchdog hang.
const hang = "TESTKIT_HANG"

// A test that hangs ends, and the output says which test it is, and where. TestHangs is the test, in another process.
func TestWatchdog(t *testing.T) {
	NeedsProcesses(t)
	for way, frame := range map[string]string{
		"loops":               "testkit.loop(",
		"waits":               "testkit.wait(",
		"loops in a bubble":   "testkit.loop(",
		"sleeps in a subtest": "testkit.sleep(",
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel() // the other process does the work
			cmd := exec.Command(os.Args[0], "-test.run=^(TestHangs|TestRounds)$")
			cmd.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "HASHEDWHEEL_") }),
				hang+"="+way, "HASHEDWHEEL_HANG=200ms")
			start := time.Now()
			out, err := cmd.CombinedOutput()
			t.Logf("after %v", time.Since(start))
			require.Error(t, err)
			require.Regexp(t, `(?m)^panic: TestHangs: no test has begun or ended for `, string(out))
			require.Contains(t, string(out), frame)
		})
	}
}

func TestHangs(t *testing.T) {
	switch os.Getenv(hang) {
	case "loops":
		loop()
	case "waits":
		wait(make(chan bool))
	case "loops in a bubble":
		synctest.Test(t, func(*testing.T) { loop() })
	case "sleeps in a subtest":
		t.Run("subtest", func(*testing.T) { sleep() })
	default:
		t.Skip("runs in a process of TestWatchdog")
	}
}

func loop() {
	for time.Now().Unix() > 0 {
		runtime.Gosched()
	}
}

func wait(c chan bool) { <-c }

func sleep() { time.Sleep(time.Hour) }
