package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The program runs for a bit more than two hours of virtual time, which begins at midnight UTC.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		args := []string{"-for", "2h30s", "@every 20m", "30 * * * *", "CRON_TZ=UTC 0 0 1 * * *"}
		if code := run(context.Background(), args, &out, &errs); code != 0 {
			t.Fatalf("exit code %d: %s", code, &errs)
		}
		for _, want := range []string{"@every 20m           ran 6 times", "30 * * * *           ran 2 times", "CRON_TZ=UTC 0 0 1 * * * ran 1 times"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, &out)
			}
		}
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, "30 * * * *           run ") && !strings.Contains(line, ":30:00.000") {
				t.Errorf("at another time than half past: %s", line)
			}
		}
	})
}

// An interval with a fraction of a second is exact, and so is the time of the next run.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		if code := run(context.Background(), []string{"-for", "5m7s", "@every 1500ms", "@every 2m"}, &out, &errs); code != 0 {
			t.Fatalf("exit code %d: %s", code, &errs)
		}
		at := func(hhmmss string) string {
			at, _ := time.Parse(time.DateTime, "2000-01-01 "+hhmmss)
			return at.Local().Format(time.DateTime)
		}
		for _, want := range []string{
			at("00:00:01")[len("2000-01-01 "):] + ".500  @every 1500ms        run 1\n",
			at("00:00:03")[len("2000-01-01 "):] + ".000  @every 1500ms        run 2\n",
			"@every 1500ms        ran 204 times, next at " + at("00:05:07") + "\n",
			"@every 2m            ran 2 times, next at " + at("00:06:00") + "\n",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, &out)
			}
		}
	})
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, nil, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	if strings.Count(out.String(), ", next at ") != 3 {
		t.Errorf("no report:\n%s", &out)
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{
		{"no expression"}, {"0 0 30 2 *"}, {"-jitter", "2"}, {"@every 0s"}, {"@every so often"}, {"-tick", "0s"}, {"-tick", "x"}, {"-nosuch"},
	} {
		var out, errs bytes.Buffer
		if code := run(context.Background(), args, &out, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("%q: exit code %d: %q", args, code, &errs)
		}
	}
}
