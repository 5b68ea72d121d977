package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExitCode(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		err         error
		interrupted bool
		want        int
	}{
		{nil, false, 0},
		{failed, false, 1},
		{failed, true, 1},
		{flag.ErrHelp, false, 0},
		{fmt.Errorf("wrapped: %w", Exit{3, failed}), false, 3},
		{nil, true, 130},
		{context.Canceled, true, 130},
		{context.Canceled, false, 1},
	} {
		assert.Equal(t, c.want, exitCode(c.err, c.interrupted), "%v, %v", c.err, c.interrupted)
	}
	assert.ErrorIs(t, Exit{3, failed}, failed)
}

func TestParse(t *testing.T) {
	var out strings.Builder
	parse := func(args ...string) (int, error) {
		flags := Flags("sleep", "sleeps")
		n := flags.Int("n", 5, "how `often`")
		err := Parse(flags, args, &out)
		return *n, err
	}
	n, err := parse("-n", "7")
	require.NoError(t, err)
	assert.Equal(t, 7, n)
	for _, args := range [][]string{{"-n", "x"}, {"-m"}, {"more"}} {
		_, err = parse(args...)
		assert.Equal(t, 2, exitCode(err, false), "%v", err)
	}
	assert.Empty(t, out.String(), "an error is printed by Main alone")
	_, err = parse("-h")
	assert.ErrorIs(t, err, flag.ErrHelp)
	assert.True(t, strings.HasPrefix(out.String(), "sleep sleeps\n"), out.String())
	assert.Contains(t, out.String(), "-n often")
}

func TestTable(t *testing.T) {
	var out strings.Builder
	Table(&out, []any{"requests", 200, "100 %"}, []any{"in time", 7})
	assert.Equal(t, "requests  200  100 %\nin time   7\n", out.String())
}

func TestProgress(t *testing.T) {
	for terminal, want := range map[bool]string{
		true:  "\r\x1b[K1 of 9, 0s\r\r\x1b[K2 of 9, 0s\r\r\x1b[K",
		false: "1 of 9, 2s\n2 of 9, 4s\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			n := 0
			stop := progress(&out, func() string { n++; return fmt.Sprintf("%d of 9", n) }, terminal)
			if terminal {
				time.Sleep(500 * time.Millisecond)
			} else {
				time.Sleep(5 * time.Second)
			}
			stop()
			stop()
			assert.Equal(t, want, out.String())
		})
	}
	Progress(nil)() // tests show nothing
}
