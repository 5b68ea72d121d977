package main

import (
	"bytes"
	"io/fs"
	"path"
	"strings"
	"testing"
)

// Each program has a test that measures it, and a change. An empty change means that the test itself replaces the timers.
func TestPrograms(t *testing.T) {
	all, err := list()
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, p := range all {
		if _, version, ok := strings.Cut(p.module, "@v"); !ok || version == "" {
			t.Errorf("%s has no version: %s", p.name, p.module)
		}
		test, err := fs.ReadFile(programs, path.Join("programs", p.name, "measure_test.go.txt"))
		if err != nil || !bytes.Contains(test, []byte("func TestMeasure(")) {
			t.Errorf("%s has no TestMeasure: %v", p.name, err)
		}
		patch, err := fs.ReadFile(programs, path.Join("programs", p.name, "change.patch"))
		if err != nil {
			t.Error(err)
		}
		if len(patch) == 0 && !bytes.Contains(test, []byte("OTHERS_VARIANT")) {
			t.Errorf("%s has neither a change nor a test that makes one", p.name)
		}
	}
}

func TestParse(t *testing.T) {
	got, err := parse([]byte("=== RUN\nmeasure: CPU\t1.5\tµs\n    x.go:1: measure: p99\t20\tms\nok\n"))
	if err != nil || len(got) != 2 || got[0] != (value{figure{"CPU", "µs"}, 1.5}) || got[1] != (value{figure{"p99", "ms"}, 20}) {
		t.Error(got, err)
	}
	for _, text := range []string{"", "measure: CPU\t1.5\n", "measure: CPU\tx\tµs\n"} {
		if got, err := parse([]byte(text)); err == nil {
			t.Errorf("%q became %v", text, got)
		}
	}
}

func TestSpread(t *testing.T) {
	for want, values := range map[string][]float64{"none": nil, "1.5": {1.5}, "2 (1 to 3)": {3, 1, 2}} {
		if got := spread(values); got != want {
			t.Errorf("%v became %q", values, got)
		}
	}
}

func TestUsage(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out, 1, nil); err != nil || !strings.Contains(out.String(), "@v") {
		t.Error(&out, err)
	}
	if err := run(&out, 1, []string{"no-such-program"}); err == nil {
		t.Error("no error for a program that is not there")
	}
	if err := run(&out, -1, nil); err == nil {
		t.Error("no error for less than no rounds")
	}
}
