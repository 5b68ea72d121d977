package vet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
	"golang.org/x/tools/go/analysis/passes/copylock"
)

func TestCanceled(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), Canceled, "canceled", "foreign")
}

func TestOverwrite(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), Overwrite, "overwrite", "bound", "generics", "old/shelf", "foreign")
}

// noErrors is a testing.T that ignores that the diagnostics are not those of the comments.
type noErrors struct{}

func (noErrors) Errorf(string, ...any) {}

// What copylocks reports is not reported again. It reports the lines with a comment that says so.
func TestCopylocksIsNotRepeated(t *testing.T) {
	pkgs := []string{"overwrite", "bound", "generics"}
	type line struct {
		file string
		n    int
	}
	files := make(map[string]bool) // without those that need a newer release of Go
	lines := func(a *analysis.Analyzer) map[line]bool {
		found := make(map[line]bool)
		for _, result := range analysistest.Run(noErrors{}, analysistest.TestData(), a, pkgs...) {
			if result.Err != nil {
				t.Fatal(result.Err)
			}
			for _, file := range result.Pass.Files {
				files[result.Pass.Fset.File(file.Pos()).Name()] = true
			}
			for _, d := range result.Diagnostics {
				at := result.Pass.Fset.Position(d.Pos)
				found[line{at.Filename, at.Line}] = true
			}
		}
		return found
	}
	ours, theirs := lines(Overwrite), lines(copylock.Analyzer)
	for file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, content := range strings.Split(string(text), "\n") {
			l := line{file, i + 1}
			if want := strings.HasSuffix(content, "// copylocks"); theirs[l] != want {
				t.Errorf("%v: reported by copylocks: %v", l, !want)
			}
			if ours[l] && theirs[l] {
				t.Errorf("%v is reported twice", l)
			}
		}
	}
	if len(files) < len(pkgs) || len(ours) == 0 || len(theirs) == 0 {
		t.Errorf("%d files, %d lines are reported, and %d by copylocks", len(files), len(ours), len(theirs))
	}
}

// The go command runs the tool with the real library, and also on its tests.
func TestGoVet(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "hashedwheelvet.exe")
	run := func(dir, name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(".", "go", "build", "-o", tool, "./hashedwheelvet"); err != nil {
		t.Fatal(err, out)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod": "module example.com/calls\n\ngo 1.25\n\nrequire " + library + " v0.0.0\n\nreplace " + library + " => " + root + "\n",
		"calls.go": `package calls

import "github.com/hashedwheel/hashedwheel"

type call struct{ timeout hashedwheel.Timeout }

func (*call) Run(*hashedwheel.Timeout) {}

func (*call) Canceled() {}

func clear(c *call) { *c = call{} }
`,
		"calls_test.go": `package calls

import (
	"iter"
	"slices"

	"example.com/calls/helper"
)

func grow(calls []call) []call { return append(calls, call{}) }

func generic(c *call, calls []call) {
	helper.Zero(c)
	_ = slices.Insert(calls, 0, call{})
	_, _ = iter.Pull(slices.Values(calls))
}
`,
		"helper/helper.go": "package helper\n\nfunc Zero[T any](p *T) { *p = *new(T) }\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := run(dir, "go", "vet", "./..."); err != nil {
		t.Errorf("go vet: %s", out)
	}
	out, err := run(dir, "go", "vet", "-vettool="+tool, "./...")
	if err == nil {
		t.Error("nothing is reported")
	}
	for _, want := range []string{
		"calls.go:9:14: method Canceled of call is not called when its timeout is canceled: want Canceled(*hashedwheel.Timeout)\n",
		"calls.go:11:23: assignment to *c overwrites the hashedwheel.Timeout in call\n",
		"calls_test.go:10:41: append may move the elements, which copies the hashedwheel.Timeout in call: use a slice of pointers\n",
		"calls_test.go:13:9: helper.Zero overwrites or copies the hashedwheel.Timeout in call\n",
		"calls_test.go:14:13: slices.Insert overwrites or copies the hashedwheel.Timeout in call\n",
		"calls_test.go:15:14: iter.Pull overwrites or copies the hashedwheel.Timeout in call\n",
	} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%q is not reported once:\n%s", want, out)
		}
	}
}
