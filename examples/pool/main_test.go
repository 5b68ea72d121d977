package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// Every task runs, with a pool that refuses tasks and with one that blocks.
func TestRun(t *testing.T) {
	for _, args := range []string{
		"-tasks 500 -workers 2 -work 10ms",
		"-tasks 200 -workers 20 -work 1ms -blocking",
	} {
		var out, errs bytes.Buffer
		if code := run(context.Background(), strings.Fields(args), &out, &errs); code != 0 {
			t.Fatalf("%s: exit code %d: %s", args, code, &errs)
		}
		if !strings.Contains(out.String(), "not run (interrupted)  0\n") {
			t.Errorf("%s: tasks were lost:\n%s", args, &out)
		}
		// Two workers have time for 200 tasks of 10 ms in a second.
		if refused := !strings.Contains(out.String(), "refused by the pool    0,"); refused != strings.Contains(args, "-workers 2 ") {
			t.Errorf("%s: refused: %v\n%s", args, refused, &out)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, nil, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	if strings.Contains(out.String(), "not run (interrupted)  0\n") {
		t.Errorf("nothing was left:\n%s", &out)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range []string{"-tasks 0", "-workers -1", "-work -1s", "-tasks x", "-nosuch"} {
		var out, errs bytes.Buffer
		if code := run(context.Background(), strings.Fields(args), &out, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("%s: exit code %d: %q", args, code, &errs)
		}
	}
}
