package clock_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// dropped names the tests of package time that cannot run here, with the reasons.
var dropped = map[string]string{
	"TestOverflowPeriodRuntimeTimer": "uses a function of the runtime that only the tests of package time can name",
	"TestTimerGC":                    "timers that are dropped stay until they are due: see Differences",
}

// The tests of timers and tickers in package time pass on a Clock. They are those of the Go that runs this
// test, and are not part of this repository. An overlay makes the go command see them in testdata/timetests,
// next to a file that declares the names that they use.
func TestTestsOfPackageTime(t *testing.T) {
	if os.Getenv("HASHEDWHEEL_FULL") == "" {
		t.Skip("takes 15 s of real time: runs with HASHEDWHEEL_FULL=1")
	}
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("no go command to run the tests of package time with: %v", err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	if _, err := os.Stat(source); err != nil {
		t.Skipf("this Go comes without the source of package time: %v", err)
	}

	dir, err := filepath.Abs("testdata/timetests")
	require.NoError(t, err)
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	var tests, missing []string
	for name := range dropped {
		missing = append(missing, name)
	}
	for _, name := range []string{"sleep_test.go", "tick_test.go"} {
		adapted, found := adapt(t, filepath.Join(source, name))
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, adapted, 0o600))
		overlay.Replace[filepath.Join(dir, name)] = path
		for _, test := range found {
			if dropped[test] == "" {
				tests = append(tests, test)
			}
		}
		missing = slices.DeleteFunc(missing, func(test string) bool { return slices.Contains(found, test) })
	}
	require.Empty(t, missing, "these are dropped, but package time no longer has them")
	require.Contains(t, tests, "TestChan")
	require.Contains(t, tests, "TestStopResult")
	data, err := json.Marshal(overlay)
	require.NoError(t, err)
	list := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(list, data, 0o600))

	// One at a time: some load the machine, and others measure.
	args := []string{"test", "-overlay", list, "-vet=off", "-count=1", "-timeout=2m", "-parallel=1", "-v"}
	if testkit.RaceDetector() {
		args = append(args, "-race") // takes a minute
	}
	start := time.Now()
	out, err = exec.Command("go", append(args, "./testdata/timetests")...).CombinedOutput()
	require.NoError(t, err, "go %s\n%s", strings.Join(args, " "), out)
	passed := 0
	for _, test := range tests {
		ended := regexp.MustCompile(`(?m)^--- (PASS|SKIP): ` + test + ` `).FindSubmatch(out)
		require.NotNil(t, ended, "%s has not run:\n%s", test, out)
		if string(ended[1]) == "PASS" {
			passed++
		} else {
			t.Logf("%s was skipped", test)
		}
	}
	require.GreaterOrEqual(t, passed, len(tests)/2)
	t.Logf("%d of %d tests passed, in %v", passed, len(tests), time.Since(start).Round(time.Millisecond))
}

// adapt returns the source of a test file without the dropped tests, and without imports that are not allowed
// outside of the standard library. It also returns the names of all tests.
func adapt(t *testing.T, path string) (source []byte, tests []string) {
	t.Helper()
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, source, parser.ParseComments)
	require.NoError(t, err)
	blank := func(doc *ast.CommentGroup, n ast.Node) {
		from := n.Pos()
		if doc != nil {
			from = doc.Pos()
		}
		for i := fset.Position(from).Offset; i < fset.Position(n.End()).Offset; i++ {
			if source[i] != '\n' {
				source[i] = ' '
			}
		}
	}
	for _, spec := range file.Imports {
		if path := spec.Path.Value; path == `"time"` || strings.HasPrefix(path, `"internal/`) {
			blank(spec.Doc, spec)
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := decl.Name.Name
			if decl.Recv == nil && strings.HasPrefix(name, "Test") {
				tests = append(tests, name)
			}
			if dropped[name] != "" {
				blank(decl.Doc, decl)
			}
		case *ast.GenDecl:
			if decl.Doc != nil && strings.Contains(string(source[fset.Position(decl.Doc.Pos()).Offset:fset.Position(decl.Doc.End()).Offset]), "go:linkname") {
				blank(decl.Doc, decl) // the shim declares it
			}
		}
	}
	return source, tests
}
