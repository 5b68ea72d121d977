package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"slices"
	"strings"
)

// place names the code that the mutation changes.
func (m mutation) place() string { return m.in + " in " + m.file }

// errGone is in the chain of an error that says that the code of a mutation is no longer there.
var errGone = errors.New("write into the entry what is there now and what makes the same fault of it; if there is no such fault any more, delete the entry")

// apply returns the source of the mutation's file with the fault. The error says what to do with the entry in list.go.
func (m mutation) apply(source string) (string, error) {
	from, to, err := declaration(m.file, source, m.in)
	if err != nil {
		return "", err
	}
	all, old := tokensOf(source[from:to]), tokensOf(m.old)
	same := func(a, b codeToken) bool { return a.text == b.text }
	n, at := 0, 0
	for i := range all {
		if len(old) > 0 && i+len(old) <= len(all) && slices.EqualFunc(all[i:i+len(old)], old, same) {
			n, at = n+1, i
		}
	}
	switch {
	case n == 0:
		return "", fmt.Errorf("%s no longer has the code `%s`: %w", m.place(), m.old, errGone)
	case n > 1:
		return "", fmt.Errorf("%s has this code %d times:\n\t%s\nAdd what stands before or after it to both texts of the entry",
			m.place(), n, m.old)
	}
	return source[:from+all[at].from] + m.new + source[from+all[at+len(old)-1].to:], nil
}

// stale says what of the mutation is gone: its code, or one of its tests. It returns nil if both are there.
func (m mutation) stale(files tree, known tests) error {
	source, ok := files[m.file]
	if !ok {
		return fmt.Errorf("there is no file %s: %w", m.file, errGone)
	}
	if _, err := m.apply(source); errors.Is(err, errGone) {
		return err
	}
	for _, name := range strings.Fields(m.tests) {
		if dirs, _ := known.find(name, path.Dir(m.file)); len(dirs) == 0 {
			return fmt.Errorf("there is no test %s: name one that notices the fault", name)
		}
	}
	return nil
}

// releasing reports whether a version is about to be released, with HASHEDWHEEL_RELEASE=1. Then no mutation may be stale.
func releasing() bool { return os.Getenv("HASHEDWHEEL_RELEASE") != "" }

// parsed is what declaration has parsed last, because the entries of a file mostly follow each other.
var parsed struct {
	source string
	fset   *token.FileSet
	file   *ast.File
	err    error
}

// declaration returns where the top-level declaration of a name begins and ends. The name of a method has its type before it,
// as in Timer.Stop.
func declaration(file, source, name string) (from, to int, err error) {
	if parsed.fset == nil || parsed.source != source {
		parsed.source, parsed.fset = source, token.NewFileSet()
		parsed.file, parsed.err = parser.ParseFile(parsed.fset, file, source, parser.SkipObjectResolution)
	}
	fset, f := parsed.fset, parsed.file
	if parsed.err != nil {
		return 0, 0, parsed.err
	}
	var found []ast.Node
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if nameOf(d) == name {
				found = append(found, d)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.Name == name {
						found = append(found, s)
					}
				case *ast.ValueSpec:
					if slices.ContainsFunc(s.Names, func(id *ast.Ident) bool { return id.Name == name }) {
						found = append(found, s)
					}
				}
			}
		}
	}
	switch len(found) {
	case 0:
		return 0, 0, fmt.Errorf("%s no longer declares %s: if it has another name or is in another file, write that into the entry; otherwise %w", file, name, errGone)
	case 1:
	default:
		return 0, 0, fmt.Errorf("%s declares %s %d times", file, name, len(found))
	}
	return fset.Position(found[0].Pos()).Offset, fset.Position(found[0].End()).Offset, nil
}

// nameOf returns the name of a function, with the type of its receiver before it.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.IndexListExpr:
			t = of.X
		case *ast.Ident:
			return of.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// A codeToken is a token of some code, with the place where it is.
type codeToken struct {
	text     string
	from, to int
}

// tokensOf returns the tokens of some code, without comments and semicolons, because a line break stands for a semicolon.
func tokensOf(code string) (all []codeToken) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(code))
	s.Init(file, []byte(code), nil, 0)
	for {
		pos, kind, text := s.Scan()
		switch {
		case kind == token.EOF:
			return all
		case kind == token.SEMICOLON:
			continue
		case text == "":
			text = kind.String()
		}
		from := file.Offset(pos)
		all = append(all, codeToken{text, from, from + len(text)})
	}
}
