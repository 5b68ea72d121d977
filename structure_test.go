package hashedwheel

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// features are the files that are built on the core, each with the other features that it may name.
var features = map[string][]string{
	"canceler": nil,
	"executor": nil,
	"group":    {"repeat", "schedule"},
	"keyed":    nil,
	"keyedall": {"keyed"},
	"light":    nil,
	"repeat":   {"schedule"},
	"schedule": {"repeat"},
	"stats":    nil,
	"sleep":    {"light"},
}

// The core names no feature: no file of the core mentions anything that the file of a feature declares. The only
// exception is hook.go, where prepareTask names Canceler. A feature names only those other features that the table
// above allows. So each feature can be read alone, and deleted with the few that name it.
func TestCoreNamesNoFeature(t *testing.T) {
	needsProcesses(t) // the importer asks the go command for package files
	t.Parallel()
	arrows := arrowsOf(t)
	up := 0
	for arrow, name := range arrows {
		allowed, isFeature := features[arrow.from]
		if _, ok := features[arrow.to]; !ok {
			continue
		}
		up++
		if isFeature && slices.Contains(allowed, arrow.to) || arrow == (fileArrow{"hook", "canceler"}) {
			continue
		}
		t.Errorf("%s.go names %s, which %s.go declares", arrow.from, name, arrow.to)
	}
	t.Logf("%d pairs of files in which one names the other, in %d of them a feature", len(arrows), up)
	for file := range features {
		require.FileExists(t, file+".go")
	}
}

// A fileArrow leads from a file that mentions a name to the file that declares it.
type fileArrow struct{ from, to string }

// arrowsOf parses the non-test files of the package, and returns the arrows between them, each with one of
// the names that it stands for.
func arrowsOf(t *testing.T) map[fileArrow]string {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
	}
	info := types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Importer: importer.Default()}
	pkg, err := conf.Check("hashedwheel", fset, files, &info)
	require.NoError(t, err)
	base := func(p token.Pos) string { return strings.TrimSuffix(filepath.Base(fset.Position(p).Filename), ".go") }
	arrows := make(map[fileArrow]string)
	for id, obj := range info.Uses {
		if obj.Pkg() != pkg {
			continue
		}
		if a := (fileArrow{base(id.Pos()), base(obj.Pos())}); a.from != a.to {
			arrows[a] = id.Name
		}
	}
	require.NotEmpty(t, arrows)
	return arrows
}
