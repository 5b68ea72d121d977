package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What comments name exists: a field or method after the name of a type or a package of this module, as in worker.reconcile, and
// each test.
func TestCommentsNameWhatExists(t *testing.T) {
	t.Parallel()
	tests := strings.Join(testFiles(t), "\n")
	packages := make(map[string][]*ast.File) // by folder, without tests
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err == nil {
			packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], file)
		}
		return err
	}))
	names := regexp.MustCompile(`(?:^|[^\w./"-])([A-Za-z]\w*)\.([A-Za-z]\w*)\b`)
	test := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
	checked := 0
	for _, files := range packages {
		members := membersOf(files)
		for _, file := range files {
			for _, group := range file.Comments {
				text := group.Text()
				for _, name := range names.FindAllStringSubmatch(text, -1) {
					if known := members[name[1]]; known != nil && name[2] != "go" { // not a file
						checked++
						assert.True(t, known[name[2]], "a comment of package %s names %s.%s", file.Name.Name, name[1], name[2])
					}
				}
				for _, name := range test.FindAllString(text, -1) {
					checked++
					assert.Contains(t, tests, "func "+name+"(", "a comment of package %s names %s", file.Name.Name, name)
				}
			}
		}
	}
	assert.Greater(t, checked, 150)
}

// membersOf returns, for each type that the files of a package declare, its fields and methods. Types that embed others are left
// out.
func membersOf(files []*ast.File) map[string]map[string]bool {
	members, embeds := make(map[string]map[string]bool), make(map[string]bool)
	add := func(of, name string) {
		if members[of] == nil {
			members[of] = make(map[string]bool)
		}
		members[of][name] = true
	}
	fields := func(of string, list *ast.FieldList) {
		for _, field := range list.List {
			embeds[of] = embeds[of] || len(field.Names) == 0
			for _, name := range field.Names {
				add(of, name.Name)
			}
		}
	}
	for _, file := range files {
		for _, declared := range file.Decls {
			switch d := declared.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					add(receiverOf(d.Recv.List[0].Type), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					switch in := s.Type.(type) {
					case *ast.StructType:
						fields(s.Name.Name, in.Fields)
					case *ast.InterfaceType:
						fields(s.Name.Name, in.Methods)
					}
				}
			}
		}
	}
	for name := range embeds {
		if embeds[name] {
			delete(members, name)
		}
	}
	return members
}

// receiverOf returns the name of the type of a receiver.
func receiverOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverOf(e.X)
	case *ast.IndexExpr:
		return receiverOf(e.X)
	case *ast.IndexListExpr:
		return receiverOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
