package repository

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// root is the directory of the library.
const root = "../.."

// layout has the files of the package from the top down. A file uses only what files below it declare. Calls through
// interfaces may lead up: pools call their host, in pools.go.
var layout = []string{
	"doc.go", "bridge.go", "sleep.go",
	"options.go", "pools.go", "group.go", "schedule.go", "wall.go", "reset.go", "stop.go", "warn.go", "log.go", "walk.go", "handle.go", "stats.go",
	"timer.go", "yield.go", "worker.go", "intake.go", "hook.go", "calls.go", "histogram.go", "progress.go", "mpsc.go", "nursery.go", "wheel.go", "bucket.go",
	"timeout.go",
}

// upward has the exceptions, each with its reason.
var upward = map[fileArrow]string{
	{"intake.go", "worker.go"}: "it has methods of the worker",
	{"timeout.go", "timer.go"}: "a Timeout knows its Timer",
	{"hook.go", "timer.go"}:    "a Canceler is notified by Timer.calls",
	{"hook.go", "log.go"}:      "a panic of a Canceler is reported",
}

// TestLayout checks that the package can be read file by file: its names lead down. CONTRIBUTING.md lists all files.
func TestLayout(t *testing.T) {
	t.Parallel()
	arrows, lines := arrowsOf(t)
	contributing, err := os.ReadFile(root + "/CONTRIBUTING.md")
	require.NoError(t, err)
	total := 0
	for file, n := range lines {
		total += n
		assert.True(t, slices.Contains(layout, file), "%s is not in the layout", file)
		assert.True(t, strings.Contains(string(contributing), file), "%s is not in CONTRIBUTING.md", file)
	}
	assert.Len(t, lines, len(layout))
	for arrow, names := range arrows {
		for _, kind := range []string{"notified", "Canceler", "lightHook"} {
			if arrow.to == "hook.go" && slices.Contains(names, kind) && arrow.from != "sleep.go" { // a Sleep is one
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

// TestNoLocalHidesAState checks that no variable or parameter has the name of a bit or status of the word, or of a state of the
// worker, so that each of these names means one thing.
func TestNoLocalHidesAState(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	states, locals := make(map[string]bool), make(map[string]token.Pos)
	for _, name := range layout {
		f, err := parser.ParseFile(files, root+"/"+name, nil, 0)
		require.NoError(t, err)
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.CONST && (name == "timeout.go" || name == "worker.go") {
				for _, spec := range d.Specs {
					for _, id := range spec.(*ast.ValueSpec).Names {
						states[id.Name] = true
					}
				}
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.StructType:
					return false // fields are used with their struct
				case *ast.Field:
					for _, id := range n.Names {
						locals[id.Name] = id.Pos()
					}
				case *ast.AssignStmt:
					for _, lhs := range n.Lhs {
						if id, ok := lhs.(*ast.Ident); ok && n.Tok == token.DEFINE {
							locals[id.Name] = id.Pos()
						}
					}
				case *ast.DeclStmt:
					for _, spec := range n.Decl.(*ast.GenDecl).Specs {
						if v, ok := spec.(*ast.ValueSpec); ok {
							for _, id := range v.Names {
								locals[id.Name] = id.Pos()
							}
						}
					}
				}
				return true
			})
		}
	}
	require.Contains(t, states, "pending")
	require.Contains(t, states, "halted")
	require.Contains(t, locals, "word")
	for name := range states {
		assert.False(t, locals[name].IsValid(), "%s: %s is also a bit or a state", files.Position(locals[name]), name)
	}
}

// The first screen of the README has what a first program needs: how to install the library, the
// default tick, how to end a timer, and a short program that runs as it stands.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(root + "/README.md")
	require.NoError(t, err)
	intro, program, _ := strings.Cut(string(readme), "```go\n")
	assert.Contains(t, intro, "\n    go get github.com/hashedwheel/hashedwheel ")
	assert.Contains(t, intro, "From 1.0 on")
	program, after, _ := strings.Cut(program, "```\n")
	assert.Contains(t, program, "timer.Shutdown(")
	after, _, _ = strings.Cut(after, "\n![")
	timer, err := hashedwheel.New()
	require.NoError(t, err)
	assert.Contains(t, after, "default tick of "+fmt.Sprint(timer.Tick().Milliseconds())+" ms")
	require.True(t, strings.HasPrefix(program, "package main\n"), program)
	if testing.Short() {
		t.Skip("the program is only compiled and run without -short")
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to run the program")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	out, err := exec.Command(goCommand, "run", file).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, "hello\n", string(out))
}

// The table of the README has the figures of the chart above it.
func TestReadmeChart(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(root + "/README.md")
	require.NoError(t, err)
	chart, err := os.ReadFile(root + "/benchmarks/results/rpc.svg")
	require.NoError(t, err)
	row := regexp.MustCompile(`as in the chart <!-- .* --> \| ([\d.]+)(?: to ([\d.]+))? ns \| ([\d.]+)(?: to ([\d.]+))? ns \|`).FindStringSubmatch(string(readme))
	require.NotNil(t, row)
	number := func(text string) float64 {
		n, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		return n
	}
	var medians []float64
	for _, found := range regexp.MustCompile(`>([\d.]+) ns`).FindAllStringSubmatch(string(chart), -1) {
		medians = append(medians, number(found[1]))
	}
	require.GreaterOrEqual(t, len(medians), 2)
	for i, figure := range [][]string{row[1:3], row[3:5]} { // the first bars are those of hashedwheel and package time
		least, most := number(figure[0]), number(cmp.Or(figure[1], figure[0]))
		assert.True(t, 0.95*least <= medians[i] && medians[i] <= 1.05*most, "%v: the chart has %v", figure, medians[i]) // ranges have two digits
	}
}

// docs/guide.md says how much memory buckets, timers and timeouts take, to within a tenth. The test reads each size in
// the guide, and measures it.
func TestSizesInTheGuide(t *testing.T) {
	if testkit.RaceDetector() || unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("these are the sizes of 64-bit machines, without the race detector")
	}
	testkit.NeedsThreads(t)
	synctest.Test(t, testSizes) // because the worker takes far timeouts only when producers have paused for long
}

func testSizes(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/guide.md")
	require.NoError(t, err)
	guide := strings.Join(strings.Fields(string(text)), " ")
	says := func(sentence string, measured float64) { // a # in the sentence stands for a size
		t.Helper()
		pattern := strings.Replace(regexp.QuoteMeta(sentence), "#", "([0-9]+) (bytes|KiB)", 1)
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(guide, -1)
		require.Len(t, found, 1, "docs/guide.md does not say once: %s", sentence)
		size, err := strconv.ParseFloat(found[0][1], 64)
		require.NoError(t, err)
		if found[0][2] == "KiB" {
			size *= 1024
		}
		t.Logf("%s: %.1f bytes", found[0][0], measured)
		assert.InEpsilon(t, size, measured, 0.1, found[0][0])
	}

	n := testkit.Sized(40_000, 100_000, 1_000_000)
	says("A `Timeout` takes #", float64(unsafe.Sizeof(hashedwheel.Timeout{})))
	says("one allocation of #", heapOf(n, func(int) any { return new(hashedwheel.Timeout) }))

	const size = 512 // of a default wheel
	unused := func(procs int) float64 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		return heapOf(100, func(int) any {
			timer, err := hashedwheel.New()
			require.NoError(t, err)
			return timer
		})
	}
	says("A timer that has never been used takes #", unused(2))
	says("on a machine of two processors, and # on one of 128 or more", unused(128))

	inUse := func(size int) float64 { // how much more a timer takes while something is pending
		var timers [100]*hashedwheel.Timer
		return heapOf(len(timers), func(i int) any {
			timers[i] = newTimer(t, hashedwheel.WithWheelSize(size))
			_, err := timers[i].AfterFunc(time.Hour, nop)
			require.NoError(t, err)
			for j := 0; i == len(timers)-1 && j < len(timers); {
				if timers[j].Stats().Levels != nil {
					j++
					continue
				}
				time.Sleep(time.Millisecond)
			}
			return timers[i]
		}) - unused(runtime.GOMAXPROCS(0))
	}
	byDefault := inUse(size)
	bucket := (inUse(8*size) - byDefault) / (7 * size)
	says("each bucket of a level in use takes #", bucket)
	says("and the timer # more", byDefault-size*bucket)
	says("a default timer takes # more for the buckets", byDefault)

	// The timeouts are spread over all buckets. Always some hundreds are due at the same tick.
	pending := func(timer *hashedwheel.Timer, arm func(i int, delay time.Duration) any) float64 {
		armed := func(i int) any {
			handle := arm(i, 10*time.Minute+time.Duration(i%(n/20))*time.Millisecond)
			for i == n-1 && timer.Stats().Queued > 0 {
				time.Sleep(time.Millisecond)
			}
			if i == n-1 {
				testkit.Pass(time.Second) // the tables of the nurseries are given back
			}
			return handle
		}
		size := heapOf(n, armed)
		require.Equal(t, n, timer.Pending())
		timer.Stop()
		return size
	}
	timer := newTimer(t)
	handed := pending(timer, func(_ int, delay time.Duration) any {
		to, err := timer.AfterFunc(delay, nop)
		if err != nil {
			t.Fatal(err) // not by package require, which takes longer than the call
		}
		return to
	})
	says("A pending timeout takes #", handed)
	require.LessOrEqual(t, handed, 63.0)
	timer = newTimer(t)
	calls := make([]embeddedCall, n)
	says("One that is a field of your own struct takes # more than the struct", pending(timer, func(i int, delay time.Duration) any {
		timer.Bind(&calls[i].timeout, &calls[i])
		if _, err := calls[i].timeout.Reset(delay); err != nil {
			t.Fatal(err)
		}
		return nil
	}))
	timer = newTimer(t)
	group := hashedwheel.NewGroup(timer)
	says("A timeout of a `Group` takes # more", pending(timer, func(_ int, delay time.Duration) any {
		to, err := group.AfterFunc(delay, nop)
		if err != nil {
			t.Fatal(err)
		}
		return to
	})-handed)
}

// newTimer returns a timer that is stopped when the test ends.
func newTimer(t *testing.T, opts ...hashedwheel.Option) *hashedwheel.Timer {
	timer, err := hashedwheel.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	return timer
}

func nop() {}

type embeddedCall struct{ timeout hashedwheel.Timeout }

func (*embeddedCall) Run(*hashedwheel.Timeout) {}

// heapOf returns the bytes of the heap that each of n values takes.
func heapOf(n int, newValue func(i int) any) float64 {
	values := make([]any, n)
	before := testkit.HeapInUse()
	for i := range values {
		values[i] = newValue(i)
	}
	size := float64(testkit.HeapInUse()-before) / float64(n)
	runtime.KeepAlive(values)
	return size
}

// The library requires no module but those of its tests.
func TestRequiredModules(t *testing.T) {
	t.Parallel()
	var got []string
	for _, line := range regexp.MustCompile(`(?m)^(?:\t|require )([^\s()]+) v\S+$`).FindAllStringSubmatch(read(t, "go.mod"), -1) {
		got = append(got, line[1])
	}
	require.ElementsMatch(t, []string{"github.com/stretchr/testify", "go.uber.org/goleak"}, got)
}

// Package idle uses only the public methods of a Timer, keyed also internal/due, clock also internal/light, and wheeldebug
// internal/due and internal/logtext.
func TestPackagesUsePublicMethods(t *testing.T) {
	for dir, allowed := range map[string]string{"keyed": "internal/due", "idle": "", "clock": "internal/light",
		"wheeldebug": "internal/due internal/logtext"} {
		files, err := filepath.Glob(root + "/" + dir + "/*.go")
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
				if found && !slices.Contains(strings.Fields(allowed), strings.Trim(internal, `"`)) {
					t.Errorf("%s imports %s", name, imported.Path.Value)
				}
			}
		}
	}
}

// A program that imports the library gets no web server, nor anything else that it does not need.
func TestNoWebServer(t *testing.T) {
	t.Parallel()
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to list the imports")
	}
	list := func(packages ...string) []string {
		cmd := exec.Command(goCommand, append([]string{"list", "-deps"}, packages...)...)
		cmd.Dir = root
		out, err := cmd.Output()
		require.NoError(t, err)
		return strings.Fields(string(out))
	}
	deps := list(".", "./keyed", "./clock")
	require.Contains(t, deps, "runtime/pprof")
	for _, dep := range []string{"net", "net/http", "net/http/pprof", "expvar"} {
		require.NotContains(t, deps, dep)
	}
	deps = list("./wheeldebug")
	require.Contains(t, deps, "net/http")
	require.NotContains(t, deps, "net/http/pprof", "it registers handlers")
	require.NotContains(t, deps, "expvar")
}

// A fileArrow leads from a file that uses a name to the file that declares it.
type fileArrow struct{ from, to string }

// arrowsOf parses the non-test files of the package. It returns the arrows between them, each with the names that it
// stands for, and the number of lines of each file.
func arrowsOf(t *testing.T) (arrows map[fileArrow][]string, lines map[string]int) {
	t.Helper()
	paths, err := filepath.Glob(root + "/*.go")
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
		lines[filepath.Base(name)] = fset.File(f.Pos()).LineCount()
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
