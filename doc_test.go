package hashedwheel

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layout has the files of the package from the top down. A file uses only what files below it declare.
var layout = []string{
	"doc.go",
	"options.go", "crews.go", "group.go", "schedule.go", "reset.go", "stop.go", "log.go", "handle.go", "stats.go",
	"timer.go", "prune.go", "far.go", "worker.go", "hook.go", "histogram.go", "mpsc.go", "wheel.go", "bucket.go", "timeout.go",
}

// upward has the exceptions, each with its reason.
var upward = map[fileArrow]string{
	{"timeout.go", "timer.go"}: "a Timeout knows its Timer",
	{"worker.go", "far.go"}:    "a round takes timeouts off the queue",
	{"hook.go", "timer.go"}:    "a Canceler is notified by Timer.calls",
	{"hook.go", "log.go"}:      "a panic of a Canceler is reported",
	{"hook.go", "handle.go"}:   "a light task is found through Timeout.Task",
}

// TestLayout checks that the package can be read file by file: each has one subject and a fair size, and its names
// lead down. CONTRIBUTING.md lists all files.
func TestLayout(t *testing.T) {
	t.Parallel()
	arrows, lines := arrowsOf(t)
	contributing, err := os.ReadFile("CONTRIBUTING.md")
	require.NoError(t, err)
	total := 0
	for file, n := range lines {
		total += n
		assert.True(t, slices.Contains(layout, file), "%s is not in the layout", file)
		assert.LessOrEqual(t, n, 400, "lines of %s", file)
		assert.True(t, strings.Contains(string(contributing), file), "%s is not in CONTRIBUTING.md", file)
	}
	assert.Len(t, lines, len(layout))
	assert.LessOrEqual(t, total, 4050)
	for arrow, names := range arrows {
		for _, kind := range []string{"notified", "Canceler", "lightHook"} {
			if arrow.to == "hook.go" && slices.Contains(names, kind) && arrow.from != "handle.go" { // a Sleep is one
				t.Errorf("%s uses %s: the core knows hooks, but no kind of them", arrow.from, kind)
			}
		}
		if slices.Index(layout, arrow.from) > slices.Index(layout, arrow.to) && upward[arrow] == "" {
			t.Errorf("%s uses %s, which are declared above it, in %s", arrow.from, names, arrow.to)
		}
	}
	for arrow := range upward {
		assert.NotEmpty(t, arrows[arrow], "the exception %v is not needed", arrow)
	}
	t.Logf("%d files, %d lines, %d pairs of files in which one uses the other", len(lines), total, len(arrows))
}

// The README fits a few screens, and its first program runs as it stands.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(readme), "\n"), "\n")
	assert.LessOrEqual(t, len(lines), 120)
	for i, line := range lines {
		assert.LessOrEqual(t, len(line), 120, "line %d", i+1)
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to run the program")
	}
	_, program, _ := strings.Cut(string(readme), "```go\n")
	program, _, _ = strings.Cut(program, "```\n")
	require.True(t, strings.HasPrefix(program, "package main\n"), program)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	out, err := exec.Command(goCommand, "run", file).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, "hello\n", string(out))
}

// The documentation of the package is short. Its size and the number of its functions and types are that of go doc.
func TestDocumentationIsShort(t *testing.T) {
	t.Parallel()
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to print the documentation")
	}
	out, err := exec.Command(goCommand, "doc", "-all", ".").Output()
	require.NoError(t, err)
	assert.LessOrEqual(t, len(strings.Fields(string(out))), 3900, "words")
	overview, _, _ := strings.Cut(string(out), "VARIABLES")
	assert.LessOrEqual(t, len(strings.Fields(overview)), 304, "words of the package comment, after four with the import path")
	assert.LessOrEqual(t, len(regexp.MustCompile(`(?m)^(func|type) `).FindAll(out, -1)), 66, "functions and types")
}

// Packages keyed and idle use only the public methods of a Timer, and clock also internal/light.
func TestPackagesUsePublicMethods(t *testing.T) {
	for dir, allowed := range map[string]string{"keyed": "", "idle": "", "clock": "internal/light"} {
		files, err := filepath.Glob(dir + "/*.go")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, imported := range f.Imports {
				_, internal, found := strings.Cut(imported.Path.Value, "hashedwheel/hashedwheel/")
				if found && strings.Trim(internal, `"`) != allowed {
					t.Errorf("%s imports %s", name, imported.Path.Value)
				}
			}
		}
	}
}

// A fileArrow leads from a file that uses a name to the file that declares it.
type fileArrow struct{ from, to string }

// arrowsOf parses the non-test files of the package. It returns the arrows between them, each with the names that it
// stands for, and the number of lines of each file.
func arrowsOf(t *testing.T) (arrows map[fileArrow][]string, lines map[string]int) {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	fset := token.NewFileSet()
	lines = make(map[string]int)
	var files []*ast.File
	for _, name := range paths {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
		lines[name] = fset.File(f.Pos()).LineCount()
	}
	info := types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Importer: noImporter{}, Error: func(error) {}} // what other packages declare does not matter
	pkg, _ := conf.Check("hashedwheel", fset, files, &info)
	base := func(p token.Pos) string { return filepath.Base(fset.Position(p).Filename) }
	arrows = make(map[fileArrow][]string)
	for id, obj := range info.Uses {
		if obj.Pkg() != pkg {
			continue
		}
		a := fileArrow{base(id.Pos()), base(obj.Pos())}
		if a.from != a.to && !slices.Contains(arrows[a], id.Name) {
			arrows[a] = append(arrows[a], id.Name)
		}
	}
	require.NotEmpty(t, arrows)
	return arrows, lines
}

// noImporter gives each import an empty package.
type noImporter struct{}

func (noImporter) Import(name string) (*types.Package, error) {
	return types.NewPackage(name, path.Base(name)), nil
}
