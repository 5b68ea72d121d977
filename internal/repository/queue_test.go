package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Only the tests beside the files of the queue, and the scenarios of TestExplore, name what these files, and they, declare. So a
// redesign of the queue leaves the other tests of the package as they are. A field or method whose name another file declares
// too is not checked.
func TestQueueIsKnownToItsOwnTests(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(root + "/*.go")
	require.NoError(t, err)
	type declared struct{ names, members map[string]bool }
	queue, others := declared{map[string]bool{}, map[string]bool{}}, declared{map[string]bool{}, map[string]bool{}}
	var tests []*ast.File
	files := token.NewFileSet()
	for _, name := range names {
		if strings.HasPrefix(filepath.Base(name), "steps_") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		require.NoError(t, err)
		stem, isTest := strings.CutSuffix(strings.TrimSuffix(filepath.Base(name), ".go"), "_test")
		to := others
		switch ofQueue := slices.Contains([]string{"mpsc", "nursery", "intake"}, stem); {
		case ofQueue:
			to = queue
		case isTest:
			tests = append(tests, file)
		}
		for name := range file.Scope.Objects {
			to.names[name] = true
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					to.members[n.Name.Name] = true
				}
			case *ast.StructType:
				for _, field := range n.Fields.List {
					for _, id := range field.Names {
						to.members[id.Name] = true
					}
				}
			}
			return true
		})
	}
	require.True(t, queue.names["ring"] && queue.members["nursery"] && queue.members["drain"])
	const message = "only mpsc_test.go, nursery_test.go, intake_test.go and steps_*_test.go may name a part of the queue"
	for _, file := range tests {
		for _, id := range file.Unresolved { // what no declaration in the file means
			assert.False(t, queue.names[id.Name], "%v: %s: %s", files.Position(id.Pos()), id.Name, message)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && queue.members[s.Sel.Name] && !others.members[s.Sel.Name] {
				assert.Fail(t, message, "%v: %s", files.Position(s.Sel.Pos()), s.Sel.Name)
			}
			return true
		})
	}
}
