// Package vet finds wrong uses of package hashedwheel that go vet does not find. Command hashedwheelvet runs it. The
// analyzers can also be part of another driver of golang.org/x/tools/go/analysis.
package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

const library = "github.com/hashedwheel/hashedwheel"

// A directive at the end of a line, with a reason behind it, says that what is reported of this line is right.
const directive = "//hashedwheelvet:ignore"

// lines are the lines of each file that have a directive with a reason.
type lines map[string]map[int]bool

// findDirectives returns the lines of a package with a directive, and the directives without a reason.
func findDirectives(pass *analysis.Pass) (found lines, bare []*ast.Comment) {
	found = make(lines)
	for _, file := range pass.Files {
		for _, group := range file.Comments {
			for _, c := range group.List {
				reason, ok := strings.CutPrefix(c.Text, directive)
				if !ok {
					continue
				}
				if strings.TrimSpace(reason) == "" {
					bare = append(bare, c)
					continue
				}
				at := pass.Fset.Position(c.Pos())
				if found[at.Filename] == nil {
					found[at.Filename] = make(map[int]bool)
				}
				found[at.Filename][at.Line] = true
			}
		}
	}
	return found, bare
}

// has reports whether the line of a position has a directive.
func (l lines) has(pass *analysis.Pass, pos token.Pos) bool {
	at := pass.Fset.Position(pos)
	return l[at.Filename][at.Line]
}

// isTimeout reports whether t is hashedwheel.Timeout.
func isTimeout(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == "Timeout" && isLibrary(named.Obj().Pkg())
}

// isLibrary reports whether pkg is hashedwheel, also in a vendor directory of GOPATH, or compiled for a test.
func isLibrary(pkg *types.Package) bool {
	if pkg == nil {
		return false
	}
	path, _, _ := strings.Cut(pkg.Path(), " ")
	return path == library || strings.HasSuffix(path, "/vendor/"+library)
}

// contains reports whether t is not nil, and a value of it contains one of a type that is wanted. For a type parameter, it
// reports whether a value of one of the types that its constraint lists does.
func contains(t types.Type, wanted func(t types.Type) bool) bool {
	seen := make(map[types.Type]bool) // a type parameter may be part of its own constraint
	var inside func(t types.Type) bool
	inside = func(t types.Type) bool {
		t = types.Unalias(t)
		if t == nil || seen[t] {
			return false
		}
		seen[t] = true
		if wanted(t) {
			return true
		}
		if _, ok := t.(*types.TypeParam); ok {
			return slices.ContainsFunc(typeSet(t), inside)
		}
		switch u := t.Underlying().(type) {
		case *types.Array:
			return inside(u.Elem())
		case *types.Struct:
			for field := range u.Fields() {
				if inside(field.Type()) {
					return true
				}
			}
		}
		return false
	}
	return inside(t)
}

// typeSet returns the types that the constraint of a type parameter lists, none if it lists only methods. Any other
// type is alone in its set.
func typeSet(t types.Type) []types.Type {
	switch t := types.Unalias(t).(type) {
	case nil: // of the blank identifier
		return nil
	case *types.TypeParam:
		return listed(t.Constraint())
	default:
		return []types.Type{t}
	}
}

func listed(constraint types.Type) (set []types.Type) {
	switch t := constraint.Underlying().(type) {
	case *types.Interface:
		for embedded := range t.EmbeddedTypes() {
			set = append(set, listed(embedded)...)
		}
	default:
		set = []types.Type{constraint}
	}
	if union, ok := types.Unalias(constraint).(*types.Union); ok {
		set = nil
		for term := range union.Terms() {
			set = append(set, listed(term.Type())...)
		}
	}
	return set
}

// nameOf returns the name of a type as the package that is checked would write it.
func nameOf(pass *analysis.Pass, t types.Type) string {
	return types.TypeString(t, func(pkg *types.Package) string {
		if pkg == pass.Pkg {
			return ""
		}
		return pkg.Name()
	})
}

// in returns "hashedwheel.Timeout", and the type that contains it if that is another one.
func in(pass *analysis.Pass, t types.Type) string {
	if isTimeout(t) {
		return "a hashedwheel.Timeout"
	}
	return "the hashedwheel.Timeout in " + nameOf(pass, t)
}

// copied reports whether the expression x is the value of a variable. That is where copylocks of go vet reports a copy. It
// does not report a composite literal, which is new, the result of a call, and what the result of a call points to.
func copied(info *types.Info, x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.CompositeLit, *ast.CallExpr:
		return false
	case *ast.StarExpr:
		_, call := ast.Unparen(x.X).(*ast.CallExpr)
		return !call
	}
	return true
}

// builtin returns the built-in function that is called, or nil.
func builtin(info *types.Info, call *ast.CallExpr) *types.Builtin {
	b, _ := typeutil.Callee(info, call).(*types.Builtin)
	return b
}

// copiesArguments reports whether a call of a built-in function copies values that are its arguments. New does since Go 1.26.
func copiesArguments(b *types.Builtin) bool {
	switch b.Name() {
	case "append", "new", "panic":
		return true
	}
	return false // such as len
}
