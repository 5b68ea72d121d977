package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// againstCells matches the cells of -against, if -only chooses no others.
var againstCells = regexp.MustCompile(
	`^(schedule-cancel-(serial|parallel)(-pending)?|schedule|reset-(serial|parallel)|fire|burst|rpc|storm-at-once)/hashedwheel$` +
		`|^reuse-parallel/hashedwheel, embedded$`)

// againstRuns is the number of rounds of -against. A U test of fewer than four rounds never finds a difference.
const againstRuns = 5

// buildAgainst builds this program with this library as it was at a commit, in dir, a temporary folder. It returns the
// abbreviated commit and the file of the program. The benchmarks are those of the working directory.
func buildAgainst(ctx context.Context, commit, dir string) (id, exe string, err error) {
	// output runs a command and returns its first line. After an error, it does nothing.
	output := func(in string, command ...string) string {
		if err != nil {
			return ""
		}
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Dir = in
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, failed := cmd.Output()
		if failed != nil {
			err = fmt.Errorf("%s: %w: %s", strings.Join(command, " "), failed, strings.TrimSpace(stderr.String()))
		}
		line, _, _ := strings.Cut(string(out), "\n")
		return line
	}
	source, archive, modfile := filepath.Join(dir, "library"), filepath.Join(dir, "library.tar"), filepath.Join(dir, "go.mod")
	exe = filepath.Join(dir, "benchmarks")
	if err := os.Mkdir(source, 0o777); err != nil {
		return "", "", err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", "", fmt.Errorf("not in the directory of the benchmarks: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			return "", "", err
		}
	}
	id = output(".", "git", "rev-parse", "--verify", "--short=12", commit+"^{commit}")
	top := output(".", "git", "rev-parse", "--show-toplevel")
	output(top, "git", "archive", "--output", archive, id) // elsewhere it would archive a part of the repository
	output(source, "tar", "-xf", archive)
	output(dir, "go", "mod", "edit", "-replace", peers.Library+"="+source, modfile)
	// The commit may need other dependencies, so the build may change the copies of go.mod and go.sum.
	output(".", "go", "build", "-mod=mod", "-modfile="+modfile, "-o", exe, ".")
	return id, exe, err
}
