// Package rewrite runs scenarios in the explorer. It is a tool for the tests of this module only.
//
// A scenario is a function that calls explore.Scenario. Those of a package are in its variable scenarios, and in its files
// steps_*_test.go, which use nothing of the other tests. So they compile with the package, and run in a copy of it, and of the
// packages of the module that it imports. In the copy, the gates of the explorer replace sync, sync/atomic, runtime and the
// functions of package time that read the clock or wait, and stand before operations on channels. Some sizes are smaller in the
// copy.
package rewrite

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

// Explore runs the scenarios of the package in a directory, each as a test of its own. The log of each says how far
// it has searched, and whether orders were left out.
//
// HASHEDWHEEL_FULL=1 searches twice as many orders, and HASHEDWHEEL_EXPLORE=full searches for hours. With
// HASHEDWHEEL_EXPLORE_TIME=1m each scenario ends after a minute. -run=TestExplore/EndsOne runs a single scenario.
func Explore(t *testing.T, dir string, scenarios explore.Scenarios) {
	t.Helper()
	if runtime.GOARCH == "wasm" {
		t.Skip("needs processes: here no program can be started")
	}
	if testing.Short() && os.Getenv("HASHEDWHEEL_FULL") == "" {
		t.Skip("builds a program: runs without -short, or with HASHEDWHEEL_FULL=1")
	}
	t.Parallel() // other processes do the work
	// The go command notes which variables a test reads, and runs the test again when one has changed.
	limit := "1m" // for a scenario, which otherwise ends by itself after 50 ms; one that hangs says where
	for _, name := range []string{"HASHEDWHEEL_EXPLORE", "HASHEDWHEEL_FULL", "HASHEDWHEEL_EXPLORE_TIME", "HASHEDWHEEL_SEED"} {
		if os.Getenv(name) != "" {
			limit = "0" // it may take as long as it needs
		}
	}
	binary := build(t, dir, "steps", ".")
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := run(t, dir, binary, "-test.run=^TestScenario$/^"+name+"$", "-test.v", "-test.cpu=1", "-test.timeout="+limit)
			if t.Log(out); !strings.Contains(out, "=== RUN   TestScenario/"+name+"\n") {
				t.Error("the package has no such scenario")
			}
		})
	}
}

// Lines runs the tests in testdata/lines of the package in a directory, and returns what they print. They use an explore.Machine,
// which learns of what the copies of that package and of another one access.
func Lines(t *testing.T, dir, other string) string {
	t.Helper()
	return run(t, dir, build(t, dir, "lines", other, "."))
}

// scenarioTest is a test of the copy, which runs the scenario that -test.run names.
const scenarioTest = `package %s

import "testing"

func TestScenario(t *testing.T) {
	for name, search := range scenarios {
		t.Run(name, search)
	}
}
`

// build builds a copy of packages with the scenarios of the last one, the package in dir, or with its tests in testdata/lines.
func build(t *testing.T, dir, kind string, packages ...string) (binary string) {
	t.Helper()
	files, err := overlay(dir, t.TempDir(), kind, packages...)
	check(t, err)
	text, err := json.Marshal(map[string]any{"Replace": files})
	check(t, err)
	overlay, binary := filepath.Join(t.TempDir(), "overlay.json"), filepath.Join(t.TempDir(), kind+".test")
	check(t, os.WriteFile(overlay, text, 0o600))
	run(t, dir, "go", "test", "-c", "-o="+binary, "-overlay="+overlay, "-vet=off", ".")
	return binary
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a command. If it does not end before the time limit of the tests, it is killed, and t fails.
func run(t *testing.T, dir, name string, args ...string) (out string) {
	t.Helper()
	ctx := t.Context()
	if limit, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, limit.Add(-5*time.Second))
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return string(text)
}

// A listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir, Name, Export string
	GoFiles                       []string
}

// overlay returns the files that an overlay of the go command replaces, each with the file that it is replaced by. The
// packages, of which the last is that in dir, and those of the module that they import are rewritten, into files in the directory
// to. Of the tests of the last package only its scenarios are left, or the tests in testdata/lines replace them.
func overlay(dir, to, kind string, packages ...string) (files map[string]string, err error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-export", "-json=ImportPath,Dir,Name,Export,GoFiles"}, packages...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	files = make(map[string]string)
	fset, exports := token.NewFileSet(), make(map[string]string)
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var p listed // in the end the last package, because go list prints it after its imports
	for list := json.NewDecoder(strings.NewReader(string(out))); list.More(); {
		p = listed{}
		if err := list.Decode(&p); err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if !strings.HasPrefix(p.ImportPath, strings.TrimSuffix(explorer, "/internal/explore")) {
			continue
		}
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			parsed = append(parsed, file)
		}
		info := types.Info{Uses: make(map[*ast.Ident]types.Object), Types: make(map[ast.Expr]types.TypeAndValue)}
		if _, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, parsed, &info); err != nil {
			return nil, err
		}
		for i, file := range parsed {
			from, copied := filepath.Join(p.Dir, p.GoFiles[i]), filepath.Join(to, fmt.Sprintf("%d_%s", len(files), p.GoFiles[i]))
			src, err := os.ReadFile(from)
			if err != nil {
				return nil, err
			}
			w := rewriter{file: fset.File(file.Pos()), info: &info, src: string(src), lines: kind == "lines"}
			w.written, w.skipped = make(map[ast.Expr]bool), make(map[ast.Expr]bool)
			if err := os.WriteFile(copied, w.rewrite(file), 0o600); err != nil {
				return nil, err
			}
			files[from] = copied
		}
	}
	own, _ := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
	var tests []string
	for _, file := range own {
		if kind == "steps" && strings.HasPrefix(filepath.Base(file), "steps_") {
			tests = append(tests, file)
		} else {
			files[file] = "" // removes it
		}
	}
	if kind == "steps" {
		name := filepath.Join(to, "scenario_test.go")
		if err := os.WriteFile(name, fmt.Appendf(nil, scenarioTest, p.Name), 0o600); err != nil {
			return nil, err
		}
		files[filepath.Join(p.Dir, "scenario_test.go")] = name
	} else {
		tests, _ = filepath.Glob(filepath.Join(p.Dir, "testdata", kind, "*_test.go"))
		for _, file := range tests {
			files[filepath.Join(p.Dir, kind+"_"+filepath.Base(file))] = file
		}
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("no scenarios of %s", p.ImportPath)
	}
	for _, file := range tests {
		if _, err := os.ReadFile(file); err != nil { // so that the go command knows that the test depends on it
			return nil, err
		}
	}
	return files, nil
}
