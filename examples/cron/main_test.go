package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The bubble begins at midnight UTC, 2000-01-01.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := time.Local
		time.Local = time.UTC
		defer func() { time.Local = local }()
		var out bytes.Buffer
		at := "@every 2730500ms; 30 * * * *; CRON_TZ=UTC 0 0 1 * * *"
		require.NoError(t, run(t.Context(), []string{"-for", "2h1s", "-at", at}, &out))
		require.Equal(t, ""+
			"00:30:00.000  30 * * * *       run 1\n"+
			"00:45:30.500  @every 2730500ms  run 1\n"+
			"01:00:00.000  CRON_TZ=UTC 0 0 1 * * *  run 1\n"+
			"01:30:00.000  30 * * * *       run 2\n"+
			"01:31:01.000  @every 2730500ms  run 2\n", out.String())
	})
}

func TestWrongExpressions(t *testing.T) {
	for _, at := range []string{"no expression", "0 0 30 2 *", "@every 0s", "@every so often", ""} {
		err := run(t.Context(), []string{"-at", at}, new(bytes.Buffer))
		assert.ErrorContains(t, err, `"`+at+`": `)
		assert.False(t, strings.Contains(err.Error(), "\n"), "one line")
	}
}
