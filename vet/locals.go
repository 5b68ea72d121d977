package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// Bind needs the address of what it binds. So a local variable is not bound before its address is taken, and something new
// is not bound before the first pointer to it is used. Until then, both may be overwritten.

// locals are the local variables of a package.
type locals struct {
	info    *types.Info
	fresh   map[types.Object]bool      // the variable points to what is new where it is declared
	exposed map[types.Object]token.Pos // where the address is first taken, or the pointer is first used
	jumps   []token.Pos                // the goto statements
}

func newLocals(pass *analysis.Pass) *locals {
	l := &locals{pass.TypesInfo, make(map[types.Object]bool), make(map[types.Object]token.Pos), nil}
	for _, file := range pass.Files {
		ast.PreorderStack(file, nil, func(n ast.Node, stack []ast.Node) bool {
			l.visit(n, stack)
			return true
		})
	}
	return l
}

// visit notes what a node says of local variables.
func (l *locals) visit(n ast.Node, stack []ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE && len(n.Lhs) == len(n.Rhs) {
			for i, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok {
					l.declare(id, n.Rhs[i])
				}
			}
		}
	case *ast.ValueSpec:
		if len(n.Names) == len(n.Values) {
			for i, id := range n.Names {
				l.declare(id, n.Values[i])
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			l.expose(n.X, n.Pos())
		}
	case *ast.SelectorExpr: // a call of a method with a pointer receiver
		if s := l.info.Selections[n]; s != nil && s.Kind() == types.MethodVal {
			l.expose(n.X, n.Pos())
		}
	case *ast.SliceExpr:
		l.expose(n.X, n.Pos())
	case *ast.Ident:
		if l.fresh[l.info.Uses[n]] && !l.isBase(n, stack) {
			l.expose(n, n.Pos())
		}
	case *ast.BranchStmt:
		if n.Tok == token.GOTO {
			l.jumps = append(l.jumps, n.Pos())
		}
	}
}

// declare notes a variable if x is a pointer to something new.
func (l *locals) declare(id *ast.Ident, x ast.Expr) {
	v := l.info.Defs[id]
	if v == nil {
		return
	}
	switch x := ast.Unparen(x).(type) {
	case *ast.CallExpr:
		fun, ok := ast.Unparen(x.Fun).(*ast.Ident)
		b, _ := l.info.Uses[fun].(*types.Builtin)
		l.fresh[v] = ok && b != nil && b.Name() == "new"
	case *ast.UnaryExpr:
		_, lit := ast.Unparen(x.X).(*ast.CompositeLit)
		l.fresh[v] = x.Op == token.AND && lit
	}
}

// expose notes that the address of the variable that x is a part of may be known from a position on.
func (l *locals) expose(x ast.Expr, at token.Pos) {
	if v := l.root(x); v != nil {
		if first, ok := l.exposed[v]; !ok || at < first {
			l.exposed[v] = at
		}
	}
}

// isBase reports whether a pointer is used only to select a field, or to reach what it points to.
func (l *locals) isBase(id *ast.Ident, stack []ast.Node) bool {
	for i := len(stack) - 1; i >= 0; i-- {
		switch parent := stack[i].(type) {
		case *ast.ParenExpr:
			continue
		case *ast.StarExpr:
			return true
		case *ast.SelectorExpr:
			s := l.info.Selections[parent]
			return s != nil && s.Kind() == types.FieldVal
		}
		break
	}
	return false
}

// root returns the local variable that x is a part of, or the fresh pointer to it. It returns nil if x is a part of
// something else, or is reached by another pointer.
func (l *locals) root(x ast.Expr) types.Object {
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		v, ok := l.info.ObjectOf(x).(*types.Var)
		if ok && !v.IsField() && v.Parent() != nil && v.Parent() != v.Pkg().Scope() {
			return v
		}
	case *ast.StarExpr:
		return l.freshRoot(x.X)
	case *ast.SelectorExpr:
		s := l.info.Selections[x]
		switch {
		case s == nil || s.Kind() != types.FieldVal:
		case !s.Indirect():
			return l.root(x.X)
		case len(s.Index()) == 1:
			return l.freshRoot(x.X)
		}
	case *ast.IndexExpr:
		if t := l.info.TypeOf(x.X); t != nil {
			if _, ok := t.Underlying().(*types.Array); ok {
				return l.root(x.X)
			}
		}
	}
	return nil
}

// freshRoot returns the variable x if it is a fresh pointer, and otherwise nil.
func (l *locals) freshRoot(x ast.Expr) types.Object {
	if id, ok := ast.Unparen(x).(*ast.Ident); ok && l.fresh[l.info.Uses[id]] {
		return l.root(id)
	}
	return nil
}

// isUnbound reports whether x is a part of a local variable, or of something new, and certainly not bound when n has been
// executed.
func (l *locals) isUnbound(x ast.Expr, n ast.Node, stack []ast.Node) bool {
	v := l.root(x)
	return v != nil && !l.mayBeBound(v, n, stack)
}

// mayBeBound reports whether what is in a local variable, or behind a fresh pointer, may be bound when n has been executed.
func (l *locals) mayBeBound(v types.Object, n ast.Node, stack []ast.Node) bool {
	exposed, ok := l.exposed[v]
	end := n.End() // what comes before this may be executed before n
	for _, outer := range stack {
		switch outer := outer.(type) {
		case *ast.FuncLit:
			if !encloses(outer, v.Pos()) {
				return ok // the function may be called at any time
			}
			end = max(end, l.endOfJumps(outer))
		case *ast.FuncDecl:
			end = max(end, l.endOfJumps(outer))
		case *ast.ForStmt:
			if !encloses(outer.Body, v.Pos()) { // otherwise each round has its own variable
				end = max(end, outer.End())
			}
		case *ast.RangeStmt:
			if !encloses(outer, v.Pos()) {
				end = max(end, outer.End())
			}
		}
	}
	return ok && exposed < end
}

// endOfJumps returns the end of a function that has a goto, because all of it may be executed before any part.
func (l *locals) endOfJumps(function ast.Node) token.Pos {
	for _, jump := range l.jumps {
		if encloses(function, jump) {
			return function.End()
		}
	}
	return token.NoPos
}

func encloses(n ast.Node, pos token.Pos) bool { return n.Pos() <= pos && pos < n.End() }
