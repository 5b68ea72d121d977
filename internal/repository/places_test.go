package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

// The files and functions in the table of CONTRIBUTING.md that says where each thing happens exist, and so do the tests in
// the table that says what something new needs.
func TestPlaces(t *testing.T) {
	t.Parallel()
	rows := table(t, "CONTRIBUTING.md", "| what | file | functions |")
	for _, row := range rows {
		source := read(t, row[1])
		for name := range strings.SplitSeq(strings.ReplaceAll(row[2], "`", ""), ", ") {
			receiver, method, isMethod := strings.Cut(name, ".")
			declared := `(?m)^func ` + receiver + `\b`
			if isMethod {
				declared = `(?m)^func \((?:\w+ )?\*?` + receiver + `(?:\[\w+\])?\) ` + method + `\b`
			}
			assert.True(t, regexp.MustCompile(declared).MatchString(source), "CONTRIBUTING.md: %s has no function %s", row[1], name)
		}
	}
	tests := testFiles(t)
	for _, row := range table(t, "CONTRIBUTING.md", "| new | its places | forgotten |") {
		for _, test := range regexp.MustCompile(`Test\w+`).FindAllString(row[2], -1) {
			assert.True(t, slices.ContainsFunc(tests, func(text string) bool { return strings.Contains(text, "\nfunc "+test+"(") }),
				"CONTRIBUTING.md names %s", test)
		}
	}
}

// Each field of Stats is in the guide and on the page of wheeldebug, and is exported by both adapters.
func TestFieldsOfStats(t *testing.T) {
	t.Parallel()
	var guide string
	for _, row := range table(t, "docs/guide.md", "| field | |") {
		guide += row[0]
	}
	used := map[string][]string{ // the fields and methods that files use
		"metrics/promwheel/collector.go": selectors(t, "metrics/promwheel/collector.go"),
		"metrics/otelwheel":              selectors(t, "metrics/otelwheel/register.go", "metrics/otelwheel/lateness/*.go"),
		"wheeldebug/text.go":             selectors(t, "wheeldebug/text.go"),
	}
	changes := selectors(t, "wheeldebug/page.go")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[hashedwheel.Stats]()) {
		assert.True(t, strings.Contains(guide, "`"+f.Name+"`"), "%s is not in the table under Monitoring of docs/guide.md", f.Name)
		for file, names := range used {
			assert.True(t, slices.Contains(names, f.Name), "%s has all fields of Stats, but not %s", file, f.Name)
		}
		if f.Type.Kind() == reflect.Uint64 {
			assert.True(t, slices.Contains(changes, f.Name), "changesOf in wheeldebug/page.go has all counters of Stats, but not %s", f.Name)
		}
	}
}

// Each option is in the guide and in the rounds of TestCrossing. The page of wheeldebug shows it,
// as Timer.String does, unless it sets a function or a logger.
func TestOptions(t *testing.T) {
	t.Parallel()
	var guide []string
	for _, row := range table(t, "docs/guide.md", "| option of `New` | default | what it sets |") {
		guide = append(guide, strings.Trim(row[0], "`"))
	}
	var options []string
	for _, match := range regexp.MustCompile(`(?m)^func (\w+)\(.*\) Option {$`).FindAllStringSubmatch(read(t, "options.go"), -1) {
		options = append(options, match[1])
	}
	assert.ElementsMatch(t, options, guide, "The table under Choosing options in docs/guide.md has these, and only these.")
	crossing := read(t, "internal/crossing/crossing_test.go")
	for _, option := range options {
		assert.True(t, strings.Contains(crossing, "."+option+"("), "newWorld in internal/crossing/crossing_test.go sets all options, but not %s", option)
	}

	onPage := map[string]hashedwheel.Option{
		"WithTick":           hashedwheel.WithTick(time.Second),
		"WithWheelSize":      hashedwheel.WithWheelSize(64),
		"WithLevels":         hashedwheel.WithLevels(2),
		"WithMaxPending":     hashedwheel.WithMaxPending(9),
		"WithMaxConcurrency": hashedwheel.WithMaxConcurrency(3),
		"WithExecutor":       hashedwheel.WithExecutor(func(run func()) error { go run(); return nil }),
		"WithName":           hashedwheel.WithName("rpc"),
	}
	notOnPage := []string{"WithLogger", "WithPanicHandler"}
	byDefault := newTimer(t).String()
	for _, option := range options {
		set := onPage[option]
		assert.True(t, set != nil || slices.Contains(notOnPage, option), "%s is neither in onPage of this test, with an example, nor in notOnPage", option)
		assert.True(t, set == nil || newTimer(t, set).String() != byDefault, "Timer.String in log.go, which is on the page of wheeldebug, does not tell %s", option)
	}
}

// read returns the text of a file.
func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	return string(text)
}

// testFiles returns the texts of all test files of this module and of those in metrics.
func testFiles(t *testing.T) (texts []string) {
	t.Helper()
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "*/*/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			texts = append(texts, string(text))
		}
	}
	return texts
}

// table returns the cells of each row of the table with a head, in a file of Markdown.
func table(t *testing.T, file, head string) (rows [][]string) {
	t.Helper()
	_, after, found := strings.Cut(read(t, file), "\n"+head+"\n")
	require.True(t, found, "%s has no table %s", file, head)
	for line := range strings.Lines(after) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if strings.HasPrefix(line, "| |") { // an empty first cell
			cells = append([]string{""}, cells...)
		}
		if len(cells) < strings.Count(head, "|")-1 { // an empty last cell
			cells = append(cells, "")
		}
		rows = append(rows, cells)
	}
	require.NotEmpty(t, rows)
	return rows[1:] // without the line below the head
}

// selectors returns the names of all fields and methods that some files use.
func selectors(t *testing.T, patterns ...string) (names []string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					names = append(names, s.Sel.Name)
				}
				return true
			})
		}
	}
	return names
}
