package hashedwheel

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	explorer     = "github.com/hashedwheel/hashedwheel/testdata/explore"
	explorerName = "explorer" // its name in the rewritten files
)

// TestExplore runs the package in the possible orders of the atomic steps of a few goroutines, up to the bounds of
// each scenario. The scenarios are the tests in testdata/explore/steps. The explorer is in testdata/explore, and
// has tests of its own. HASHEDWHEEL_FULL=1 searches twice as many orders, and HASHEDWHEEL_EXPLORE=full searches for
// hours. With HASHEDWHEEL_EXPLORE_TIME=1m each scenario ends after a minute.
// -run=TestExplore/steps/TestStepsEndsOne runs a single scenario. For each search, a line in the log gives its
// bounds, and says whether orders were left out.
//
// The scenarios use a copy of the package. In it, the explorer's gates replace sync, sync/atomic, runtime and the
// functions of package time that read the clock or wait, and stand before operations on channels.
func TestExplore(t *testing.T) {
	needsProcesses(t)
	if testing.Short() && !full() {
		t.Skip("takes ten seconds: runs without -short, or with HASHEDWHEEL_FULL=1")
	}
	t.Parallel() // other processes do the work
	readAll(t, "testdata/explore")
	failFast := flag.Lookup("test.failfast").Value.String()
	t.Run("explorer", func(t *testing.T) {
		command(t, "go", "test", "-count=1", "-timeout=3h", "-failfast="+failFast, "./testdata/explore")(t)
	})
	t.Run("steps", func(t *testing.T) {
		dir := t.TempDir()
		overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "steps.test")
		writeOverlay(t, overlay)
		command(t, "go", "test", "-c", "-o="+binary, "-overlay="+overlay, "-vet=off", ".")(t)
		// Each process explores its part of the scenarios, on one processor.
		var waits []func(t *testing.T)
		for part := range runtime.GOMAXPROCS(0) {
			env := fmt.Sprintf("HASHEDWHEEL_EXPLORE_PART=%d/%d", part, runtime.GOMAXPROCS(0))
			waits = append(waits, command(t, "env", env, "GOMAXPROCS=1", binary,
				"-test.timeout=3h", "-test.failfast="+failFast, "-test.run="+stepsPattern(), "-test.v"))
		}
		for _, wait := range waits {
			wait(t)
		}
	})
}

// readAll reads the files below a directory and the variables for the size of the search, so that the go
// command knows that the test result depends on them.
func readAll(t *testing.T, dir string) {
	t.Helper()
	t.Log("HASHEDWHEEL_EXPLORE="+os.Getenv("HASHEDWHEEL_EXPLORE"), "HASHEDWHEEL_FULL="+os.Getenv("HASHEDWHEEL_FULL"),
		"HASHEDWHEEL_EXPLORE_TIME="+os.Getenv("HASHEDWHEEL_EXPLORE_TIME"))
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			_, err = os.ReadFile(path)
		}
		return err
	}))
}

// stepsPattern returns the pattern of the scenarios: the part of -run after two slashes, or all.
func stepsPattern() string {
	if parts := strings.SplitN(flag.Lookup("test.run").Value.String(), "/", 3); len(parts) == 3 {
		return parts[2]
	}
	return "^TestSteps"
}

// command starts a command. The function that it returns waits for the end of the command and logs its output.
// It fails the test if the command has failed.
func command(t *testing.T, name string, args ...string) (wait func(t *testing.T)) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	return func(t *testing.T) {
		t.Helper()
		err := cmd.Wait()
		require.NoError(t, err, "%s", &out)
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

// writeOverlay writes an overlay for the go command. In it the package is rewritten, and has the scenarios
// instead of its own tests.
func writeOverlay(t *testing.T, overlay string) {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	replace := map[string]string{}
	rewritten := 0
	files, err := filepath.Glob(filepath.Join(root, "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			replace[file] = "" // removes the file
			continue
		}
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		out, err := rewrite(file, src)
		require.NoError(t, err)
		if !bytes.Equal(src, out) {
			rewritten++
			replace[file] = filepath.Join(filepath.Dir(overlay), filepath.Base(file))
			require.NoError(t, os.WriteFile(replace[file], out, 0o600))
		}
	}
	require.Greater(t, rewritten, 10, "rewritten files")
	steps, err := filepath.Glob(filepath.Join(root, "testdata/explore/steps/*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, steps)
	for _, file := range steps {
		replace[filepath.Join(root, "steps_"+filepath.Base(file))] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, text, 0o600))
}

// An edit replaces the text between two offsets.
type edit struct {
	from, to int
	text     string
}

// A rewriter collects the edits of one file.
type rewriter struct {
	fset  *token.FileSet
	src   []byte
	edits []edit
	used  bool // something refers to explorerName
}

// rewrite puts the gates of the explorer into a source file. The numbers of the lines stay the same.
func rewrite(name string, src []byte) ([]byte, error) {
	w := &rewriter{fset: token.NewFileSet(), src: src}
	file, err := parser.ParseFile(w.fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	timeUsed := false
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		switch path {
		case "sync", "sync/atomic", "runtime":
			if spec.Name != nil {
				return nil, fmt.Errorf("%s: the import of %s has a name", name, path)
			}
			w.replace(spec, fmt.Sprintf("%s %q", filepath.Base(path), explorer))
		case "time":
			timeUsed = true
		}
	}
	ast.Inspect(file, w.visit)
	if w.used {
		w.replaceAt(file.Name.End(), file.Name.End(), fmt.Sprintf("; import %s %q", explorerName, explorer))
	}
	slices.SortStableFunc(w.edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	done := 0
	for _, e := range w.edits {
		if e.from < done {
			return nil, fmt.Errorf("%s: two edits in one place, before %q", name, src[e.from:e.to])
		}
		out.Write(src[done:e.from])
		out.WriteString(e.text)
		done = e.to
	}
	out.Write(src[done:])
	if timeUsed && w.used {
		out.WriteString("\nvar _ time.Duration // because the import must be used\n")
	}
	return out.Bytes(), nil
}

func (w *rewriter) replace(n ast.Node, text string) { w.replaceAt(n.Pos(), n.End(), text) }

func (w *rewriter) replaceAt(from, to token.Pos, text string) {
	w.edits = append(w.edits, edit{w.fset.Position(from).Offset, w.fset.Position(to).Offset, text})
}

func (w *rewriter) text(from, to token.Pos) string {
	return string(w.src[w.fset.Position(from).Offset:w.fset.Position(to).Offset])
}

// visit rewrites one node of the syntax tree.
func (w *rewriter) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr: // functions that read the clock or wait
		if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" {
			switch n.Sel.Name {
			case "Now", "Since", "Until", "Sleep", "AfterFunc":
				w.replace(x, explorerName)
				w.used = true
			}
		}
	case *ast.BinaryExpr: // a counter whose value matters only at multiples of pruneEvery
		if call, ok := n.X.(*ast.CallExpr); ok && n.Op == token.REM {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Add" {
				w.replace(f.Sel, "CyclicAdd")
			}
		}
	case *ast.BlockStmt:
		w.statements(n.List)
	case *ast.CaseClause:
		w.statements(n.Body)
	case *ast.CommClause:
		w.statements(n.Body)
	}
	return true
}

// statements rewrites statements that are operations on channels, or an Add whose result is not used.
func (w *rewriter) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.SelectStmt:
			w.selectStmt(s)
		case *ast.SendStmt:
			w.gate(s, s.Chan)
		case *ast.AssignStmt:
			if c := received(s); c != nil {
				w.gate(s, c)
			}
		case *ast.ExprStmt:
			if c := received(s); c != nil {
				w.gate(s, c)
			}
			call, ok := s.X.(*ast.CallExpr)
			if !ok {
				continue
			}
			switch f := call.Fun.(type) {
			case *ast.Ident:
				if f.Name == "close" {
					w.gate(s, call.Args[0])
				}
			case *ast.SelectorExpr:
				if f.Sel.Name == "Add" {
					w.replace(f.Sel, "BlindAdd")
				}
			}
		}
	}
}

// gate puts a gate before an operation on channels.
func (w *rewriter) gate(s ast.Stmt, channels ...ast.Expr) {
	var args []string
	for _, c := range channels {
		args = append(args, w.text(c.Pos(), c.End()))
	}
	w.replaceAt(s.Pos(), s.Pos(), fmt.Sprintf("%s.Channel(%s); ", explorerName, strings.Join(args, ", ")))
	w.used = true
}

// selectStmt puts a gate before a select. If several cases are possible, the select takes the first of them, so
// that a replay does the same. The next select can take another case.
func (w *rewriter) selectStmt(s *ast.SelectStmt) {
	var channels []ast.Expr
	hasDefault := false
	for _, c := range s.Body.List {
		switch comm := c.(*ast.CommClause).Comm.(type) {
		case nil:
			hasDefault = true
		case *ast.SendStmt:
			channels = append(channels, comm.Chan)
		default:
			channels = append(channels, received(comm))
		}
	}
	w.gate(s, channels...)
	if !hasDefault && len(channels) == 2 {
		first := s.Body.List[0]
		at := w.fset.Position(s.Pos())
		w.replaceAt(s.Pos(), s.Pos(), fmt.Sprintf("select { %s\n default: /*line %s:%d:%d*/",
			w.text(first.Pos(), first.End()), at.Filename, at.Line, at.Column))
		w.replaceAt(s.End(), s.End(), "}")
	}
}

// received returns the channel from which a statement receives, or nil if it does not receive.
func received(s ast.Stmt) ast.Expr {
	var x ast.Expr
	switch s := s.(type) {
	case *ast.ExprStmt:
		x = s.X
	case *ast.AssignStmt:
		x = s.Rhs[0]
	}
	if u, ok := x.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
		return u.X
	}
	return nil
}
