package rewrite

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// packages are packages of the module, with the types of their expressions.
type packages struct {
	root   string // the directory of the module
	module string // its path
	fset   *token.FileSet
	atomic types.Importer
	known  map[string]*pkg // by directory, with a slash, from the root
}

// A pkg is a package without its tests.
type pkg struct {
	fset    *token.FileSet
	sources map[string][]byte    // by path of the file
	files   map[string]*ast.File // by path of the file
	info    types.Info
	types   *types.Package
}

// newPackages returns the packages of the module that contains a directory.
func newPackages(dir string) (*packages, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			line, _, _ := strings.Cut(string(data), "\n")
			return &packages{
				root:   dir,
				module: strings.TrimSpace(strings.TrimPrefix(line, "module ")),
				fset:   token.NewFileSet(),
				atomic: importer.Default(),
				known:  make(map[string]*pkg),
			}, nil
		}
		if dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("no go.mod above the test: %w", err)
		}
		dir = filepath.Dir(dir)
	}
}

// load returns the package in a directory.
func (all *packages) load(dir string) (*pkg, error) {
	if p := all.known[dir]; p != nil {
		return p, nil
	}
	p := &pkg{fset: all.fset, sources: make(map[string][]byte), files: make(map[string]*ast.File)}
	all.known[dir] = p
	names, err := filepath.Glob(filepath.Join(all.root, filepath.FromSlash(dir), "*.go"))
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	var files []*ast.File
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(all.fset, name, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.sources[name], p.files[name] = src, file
		files = append(files, file)
	}
	p.info.Types = make(map[ast.Expr]types.TypeAndValue)
	p.info.Uses = make(map[*ast.Ident]types.Object)
	conf := types.Config{Importer: all, Error: func(error) {}} // the types of other packages stay unknown
	p.types, _ = conf.Check(dir, all.fset, files, &p.info)
	return p, nil
}

// Import returns a package of the module, or sync/atomic. No others are needed to find the atomic fields.
func (all *packages) Import(path string) (*types.Package, error) {
	if path == "sync/atomic" {
		return all.atomic.Import(path)
	}
	dir := strings.TrimPrefix(strings.TrimPrefix(path, all.module), "/")
	if path == all.module {
		dir = "."
	} else if !strings.HasPrefix(path, all.module+"/") {
		return nil, fmt.Errorf("%s is not needed", path)
	}
	p, err := all.load(dir)
	if err != nil {
		return nil, err
	}
	return p.types, nil
}
