package rewrite

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// access has an explore.Machine know of what a node of the syntax tree accesses, other than local variables, and of what it
// allocates. It is called for a node before it is called for the parts of that node. So the node notes which of its parts it writes, in
// w.written, and which it does not access as a whole, in w.skipped.
func (w *rewriter) access(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, x := range n.Lhs {
			w.written[x] = true
		}
	case *ast.IncDecStmt:
		w.written[n.X] = true
	case *ast.UnaryExpr:
		if x, ok := n.X.(*ast.CompositeLit); ok && n.Op == token.AND {
			w.wrap(x, "explorer.Lines([]"+w.text(x.Type)+"{", "})[0]")
		}
		w.skipped[n.X] = n.Op == token.AND
	case *ast.CallExpr:
		if _, ok := w.info.TypeOf(n).(*types.Slice); ok && w.text(n.Fun) == "make" && len(n.Args) == 2 {
			w.wrap(n, "explorer.Lines(", ")")
		}
		if w.text(n) == "uintptr(unsafe.Pointer(&local))" { // in package seat
			w.replace(n.Fun.Pos(), n.Fun.End(), "explorer.Stack")
		}
	case *ast.SelectorExpr:
		w.part(n, n.X)
		if f := w.function(n); strings.HasPrefix(f, "(*sync.Mutex)") || strings.HasPrefix(f, "(*sync/atomic.") {
			w.method(n.X, n.Sel.Name)
		}
	case *ast.IndexExpr:
		w.part(n, n.X)
	}
	return true
}

// part is access for a field or an element.
func (w *rewriter) part(n, of ast.Expr) {
	if w.holds(of) {
		w.skipped[of] = true
	}
	if w.info.Types[n].Addressable() && !w.skipped[n] && !w.isLocal(n) {
		w.wrap(n, "(*explorer.Access(&", fmt.Sprintf(", %t))", w.written[n]))
	}
}

// method is access for the call of a method of a mutex or of a type of sync/atomic, or of a pointer to one.
func (w *rewriter) method(x ast.Expr, name string) {
	before := "explorer.Access("
	if w.holds(x) {
		before += "&"
	}
	w.wrap(x, before, fmt.Sprintf(", %t)", name != "Load"))
}

// holds reports whether the parts of x lie inside of x.
func (w *rewriter) holds(x ast.Expr) bool {
	_, isStruct := w.info.TypeOf(x).Underlying().(*types.Struct)
	_, isArray := w.info.TypeOf(x).Underlying().(*types.Array)
	return isStruct || isArray
}

// isLocal reports whether x is a variable that has a name, or lies inside one.
func (w *rewriter) isLocal(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		return w.holds(x.X) && w.isLocal(x.X)
	case *ast.IndexExpr:
		return w.holds(x.X) && w.isLocal(x.X)
	}
	return true
}

// wrap puts text around a node. If a node is wrapped twice, the first text is the outer one.
func (w *rewriter) wrap(n ast.Node, before, after string) {
	w.replace(n.Pos(), n.Pos(), before)
	w.edits = slices.Insert(w.edits, 0, edit{w.file.Offset(n.End()), w.file.Offset(n.End()), after})
}
