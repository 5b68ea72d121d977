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

// features are the files that are built on the core, and what else of them each may name.
var features = map[string][]string{
	"canceler": nil,
	"executor": nil,
	"group":    {"repeat", "schedule"},
	"keyed":    nil,
	"keyedall": {"keyed"},
	"labeled":  nil,
	"light":    nil,
	"repeat":   {"schedule"},
	"schedule": {"repeat"},
	"stats":    nil,
	"sleep":    {"light"},
}

// The core names no feature: nothing that is declared in the file of one is mentioned in a file of the
// core, other than in hook.go, where prepareTask names Canceler. And features know of each other only
// what the table above says. So a feature can be read, or deleted, alone.
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
	t.Logf("%d arrows between files, %d of them to a feature", len(arrows), up)
	for file := range features {
		require.FileExists(t, file+".go")
	}
}

// A fileArrow leads from a file that mentions something to the one that declares it.
type fileArrow struct{ from, to string }

// arrowsOf parses the files of the package that are not tests, and returns the arrows between them,
// each with one of the names for which it stands.
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
