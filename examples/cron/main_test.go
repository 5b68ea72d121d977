package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // so that the locations are there on every machine

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

// docs/guide.md says what expressions do where the clocks change: a time that the clocks skip has no run on that day, and one
// that they show twice has two.
func TestDaylightSaving(t *testing.T) {
	const layout = "02 15:04 -0700"
	for _, c := range []struct {
		zone, expression, from string
		want                   [3]string
	}{
		{"America/New_York", "30 2 * * *", "2024-03-09 12:00", [3]string{"11 02:30 -0400", "12 02:30 -0400", "13 02:30 -0400"}},
		{"America/New_York", "0 3 * * *", "2024-03-09 12:00", [3]string{"10 03:00 -0400", "11 03:00 -0400", "12 03:00 -0400"}},
		{"America/New_York", "30 * * * *", "2024-03-10 01:00", [3]string{"10 01:30 -0500", "10 03:30 -0400", "10 04:30 -0400"}},
		{"America/New_York", "30 1 * * *", "2024-11-02 12:00", [3]string{"03 01:30 -0400", "03 01:30 -0500", "04 01:30 -0500"}},
		{"America/New_York", "30 * * * *", "2024-11-03 01:00", [3]string{"03 01:30 -0400", "03 01:30 -0500", "03 02:30 -0500"}},
		{"America/New_York", "CRON_TZ=UTC 30 6 * * *", "2024-11-02 12:00", [3]string{"03 01:30 -0500", "04 01:30 -0500", "05 01:30 -0500"}},
		{"America/Havana", "@daily", "2018-03-10 12:00", [3]string{"12 00:00 -0400", "13 00:00 -0400", "14 00:00 -0400"}},
		{"America/Havana", "30 0 * * *", "2018-11-03 12:00", [3]string{"04 00:30 -0400", "04 00:30 -0500", "05 00:30 -0500"}},
		{"America/Sao_Paulo", "@daily", "2018-11-03 12:00", [3]string{"05 00:00 -0200", "06 00:00 -0200", "07 00:00 -0200"}},
		{"Europe/Dublin", "30 1 * * *", "2020-10-24 12:00", [3]string{"25 01:30 +0100", "25 01:30 +0000", "26 01:30 +0000"}},
		{"Australia/Lord_Howe", "15 2 * * *", "2008-10-04 12:00", [3]string{"06 02:15 +1100", "07 02:15 +1100", "08 02:15 +1100"}},
		{"Australia/Lord_Howe", "45 1 * * *", "2008-04-05 12:00", [3]string{"06 01:45 +1100", "06 01:45 +1030", "07 01:45 +1030"}},
		{"Pacific/Chatham", "0 3 * * *", "2020-09-26 12:00", [3]string{"28 03:00 +1345", "29 03:00 +1345", "30 03:00 +1345"}},
		{"Antarctica/Troll", "30 1 * * *", "2020-03-28 12:00", [3]string{"30 01:30 +0200", "31 01:30 +0200", "01 01:30 +0200"}},
		{"Pacific/Apia", "0 12 * * *", "2011-12-28 12:00", [3]string{"29 12:00 -1000", "31 12:00 +1400", "01 12:00 +1400"}},
		{"Asia/Kathmandu", "0 12 * * *", "2020-01-01 12:00", [3]string{"02 12:00 +0545", "03 12:00 +0545", "04 12:00 +0545"}},
	} {
		loc, err := time.LoadLocation(c.zone)
		require.NoError(t, err)
		at, err := time.ParseInLocation("2006-01-02 15:04", c.from, loc)
		require.NoError(t, err)
		times, err := parser.Parse(c.expression)
		require.NoError(t, err)
		for _, want := range c.want {
			at = times.Next(at)
			assert.Equal(t, want, at.In(loc).Format(layout), "%s in %s", c.expression, c.zone)
		}
	}
}

func TestWrongExpressions(t *testing.T) {
	for _, at := range []string{"no expression", "0 0 30 2 *", "@every 0s", "@every so often", ""} {
		err := run(t.Context(), []string{"-at", at}, new(bytes.Buffer))
		assert.ErrorContains(t, err, `"`+at+`": `)
		assert.False(t, strings.Contains(err.Error(), "\n"), "one line")
	}
}
