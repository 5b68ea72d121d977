// Package rewrite runs scenarios in the explorer. It is a tool for the tests of this module only.
//
// A scenario is a test that calls explore.Scenario, in a directory that is not a package. Its name begins with
// TestSteps. The scenarios of a package use a copy of it, and of other packages. In the copy, the gates of the
// explorer replace sync, sync/atomic, runtime and the functions of package time that read the clock or wait, and
// stand before operations on channels.
package rewrite

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Explore runs the scenarios of the package that is tested. All directories are given from the root of the module,
// with slashes. Scenarios is the directory of the scenarios. Rewritten are patterns for the directories of the
// packages to rewrite, such as "internal/*".
//
// Explore runs as many processes as there are processors. Each takes its part of the scenarios. If the pattern of
// -run has a third part, as in -run=TestExplore/steps/TestStepsEndsOne, Explore runs only those scenarios. For each
// search, a line in the log gives its bounds, and says whether orders were left out.
func Explore(t *testing.T, tested, scenarios string, rewritten ...string) {
	t.Helper()
	all, err := newPackages(".")
	check(t, err)
	readVariables()
	check(t, readAll(filepath.Join(all.root, "internal", "explore")))
	check(t, readAll(filepath.Join(all.root, filepath.FromSlash(scenarios))))

	dir := t.TempDir()
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "steps.test")
	check(t, all.writeOverlay(overlay, tested, scenarios, rewritten))
	start(t, nil, "go", "test", "-c", "-o="+binary, "-overlay="+overlay, "-vet=off",
		path.Join(all.module, tested))(t)
	var waits []func(t *testing.T)
	for part := range runtime.GOMAXPROCS(0) {
		env := []string{fmt.Sprintf("HASHEDWHEEL_EXPLORE_PART=%d/%d", part, runtime.GOMAXPROCS(0)), "GOMAXPROCS=1"}
		waits = append(waits, start(t, env, binary, "-test.timeout=3h",
			"-test.failfast="+flag.Lookup("test.failfast").Value.String(), "-test.run="+pattern(), "-test.v"))
	}
	for _, wait := range waits {
		wait(t)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readVariables reads the variables for the size of the search, so that the go command knows that the test result
// depends on them.
func readVariables() {
	for _, name := range []string{"HASHEDWHEEL_EXPLORE", "HASHEDWHEEL_FULL", "HASHEDWHEEL_EXPLORE_TIME"} {
		os.Getenv(name)
	}
}

// readAll reads the files below a directory for the same reason.
func readAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			_, err = os.ReadFile(path)
		}
		return err
	})
}

// pattern returns the pattern of the scenarios: the part of -run after two slashes, or all.
func pattern() string {
	if parts := strings.SplitN(flag.Lookup("test.run").Value.String(), "/", 3); len(parts) == 3 {
		return parts[2]
	}
	return "^TestSteps"
}

// start starts a command, with some more environment variables. The function that it returns waits for the end of
// the command and logs its output. It fails the test if the command has failed.
func start(t *testing.T, env []string, name string, args ...string) (wait func(t *testing.T)) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	check(t, cmd.Start())
	return func(t *testing.T) {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		elsewhere := false // another process runs the scenario, so it is not skipped
		for line := range strings.Lines(out.String()) {
			switch {
			case strings.HasPrefix(line, "==="):
			case strings.HasSuffix(line, ": in another process\n"):
				elsewhere = true
			case elsewhere && strings.HasPrefix(line, "--- SKIP: "):
				elsewhere = false
			default:
				t.Log(strings.TrimRight(line, "\n"))
			}
		}
	}
}

// writeOverlay writes an overlay for the go command. In it the packages are rewritten, and the tested one has
// the scenarios instead of its own tests.
func (all *packages) writeOverlay(overlay, tested, scenarios string, rewritten []string) error {
	replace := make(map[string]string)
	for _, pattern := range rewritten {
		dirs, err := filepath.Glob(filepath.Join(all.root, filepath.FromSlash(pattern)))
		if err != nil {
			return err
		}
		before := len(replace)
		for _, dir := range dirs {
			if err := all.rewriteInto(replace, filepath.Dir(overlay), dir); err != nil {
				return err
			}
		}
		if len(replace) == before {
			return fmt.Errorf("nothing was rewritten in %s", pattern)
		}
	}
	own, err := filepath.Glob(filepath.Join(all.root, filepath.FromSlash(tested), "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range own {
		replace[file] = "" // removes the file
	}
	steps, err := filepath.Glob(filepath.Join(all.root, filepath.FromSlash(scenarios), "*_test.go"))
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		return fmt.Errorf("no scenarios in %s", scenarios)
	}
	for _, file := range steps {
		replace[filepath.Join(all.root, filepath.FromSlash(tested), "steps_"+filepath.Base(file))] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(overlay, text, 0o600)
}

// rewriteInto rewrites the package in a directory. It writes the files that change to another directory, and adds
// them to an overlay.
func (all *packages) rewriteInto(replace map[string]string, to, dir string) error {
	rel, err := filepath.Rel(all.root, dir)
	if err != nil {
		return err
	}
	p, err := all.load(path.Clean(filepath.ToSlash(rel)))
	if err != nil {
		return err
	}
	for file, src := range p.sources {
		out, err := p.rewrite(file)
		if err != nil {
			return err
		}
		if bytes.Equal(src, out) {
			continue
		}
		replace[file] = filepath.Join(to, fmt.Sprintf("%d_%s", len(replace), filepath.Base(file)))
		if err := os.WriteFile(replace[file], out, 0o600); err != nil {
			return err
		}
	}
	return nil
}
