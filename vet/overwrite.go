package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// Overwrite reports where a hashedwheel.Timeout is overwritten or copied, except for the copies that copylocks of go vet
// reports.
var Overwrite = &analysis.Analyzer{
	Name: "overwrite",
	Doc: `report where a hashedwheel.Timeout is overwritten or copied

After Bind, the timer may use a Timeout until long after its end. So the struct that holds it must never be
overwritten or copied, or the program may crash. To clear the struct, clear its other fields. To keep many in a
slice or a map, keep pointers.

What a generic function overwrites or copies is reported where the function is used for such a struct.

Copies that the analyzer copylocks of go vet reports are not reported again. Nothing is reported of a line with a
comment //hashedwheelvet:ignore that says why.`,
	URL:       "https://pkg.go.dev/github.com/hashedwheel/hashedwheel/vet#Overwrite",
	FactTypes: []analysis.Fact{new(moves)},
	Run:       runOverwrite,
}

type overwrites struct {
	*analysis.Pass
	*locals
	ignored lines
	generic map[*types.Func]*moves // of the generic functions of this package

	// While the body of a generic function is checked for one of its type parameters. See moves.
	assumed *types.TypeParam // otherwise nil
	found   bool             // a problem that is not reported
}

func runOverwrite(pass *analysis.Pass) (any, error) {
	ignored, bare := findDirectives(pass)
	for _, c := range bare {
		pass.ReportRangef(c, "%s needs a reason", directive)
	}
	o := &overwrites{Pass: pass, locals: newLocals(pass), ignored: ignored, generic: make(map[*types.Func]*moves)}
	o.checkGeneric()
	for _, file := range o.Files {
		o.check(file, nil)
	}
	return nil, nil
}

// check checks all that is inside a node. The stack has the nodes around it.
func (o *overwrites) check(root ast.Node, stack []ast.Node) {
	ast.PreorderStack(root, stack, func(n ast.Node, stack []ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			o.assignment(n, stack)
		case *ast.CallExpr:
			o.call(n)
		case *ast.MapType:
			if t := o.TypesInfo.TypeOf(n.Value); o.holds(t) {
				o.report(n.Value, "Bind cannot bind %s as the value of a map: use a pointer", in(o.Pass, t))
			}
		case *ast.ReturnStmt:
			o.returns(n, stack)
		case *ast.SendStmt:
			if t := o.TypesInfo.TypeOf(n.Value); o.holds(t) && copied(o.TypesInfo, n.Value) {
				o.report(n.Value, "send copies %s", in(o.Pass, t))
			}
		case *ast.StarExpr:
			o.dereference(n, stack)
		}
		o.instance(n)
		o.assumedCopy(n, stack)
		return true
	})
}

// report reports a problem, unless the line on which it begins has a directive.
func (o *overwrites) report(n ast.Node, format string, args ...any) {
	switch {
	case o.ignored.has(o.Pass, n.Pos()):
	case o.assumed != nil:
		o.found = true
	default:
		o.ReportRangef(n, format, args...)
	}
}

// holds reports whether a value of type t contains a hashedwheel.Timeout, or the type parameter that is assumed to hold one.
func (o *overwrites) holds(t types.Type) bool {
	if o.assumed != nil {
		return contains(t, func(t types.Type) bool { return t == o.assumed })
	}
	return contains(t, isTimeout)
}

// elementHolds reports whether t is a slice or a map of values that hold a Timeout, and returns the type of these values.
func (o *overwrites) elementHolds(t types.Type) (elem types.Type, ok bool) {
	for _, t := range typeSet(t) {
		switch u := t.Underlying().(type) {
		case *types.Slice:
			elem = u.Elem()
		case *types.Map:
			elem = u.Elem()
		default:
			continue
		}
		if o.holds(elem) {
			return elem, true
		}
	}
	return nil, false
}

// copylocksSees reports whether copylocks of go vet reports that the expression x is copied, if its type holds a Timeout. It
// does not know what type parameter is assumed to hold one.
func (o *overwrites) copylocksSees(x ast.Expr) bool {
	return o.assumed == nil && copied(o.TypesInfo, x)
}

// assignment reports the variables on the left that are overwritten.
func (o *overwrites) assignment(n *ast.AssignStmt, stack []ast.Node) {
	for i, left := range n.Lhs {
		right := n.Rhs[min(i, len(n.Rhs)-1)] // one call may have several results
		t := o.TypesInfo.TypeOf(left)
		if !o.holds(t) || o.copylocksSees(right) {
			continue
		}
		if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE && o.TypesInfo.Defs[id] != nil {
			continue
		}
		if o.isUnbound(left, n, stack) || o.isMapValue(left) {
			continue
		}
		o.report(n, "assignment to %s overwrites %s", types.ExprString(left), in(o.Pass, t))
	}
}

// returns reports a return that copies a result with a name, or overwrites it.
func (o *overwrites) returns(n *ast.ReturnStmt, stack []ast.Node) {
	i := -1
	for _, name := range results(stack) {
		i++
		v := o.TypesInfo.Defs[name]
		if v == nil || !o.holds(v.Type()) || !o.mayBeBound(v, n, stack) {
			continue
		}
		if len(n.Results) == 0 {
			o.report(n, "return copies %s", in(o.Pass, v.Type()))
		} else if !o.copylocksSees(n.Results[min(i, len(n.Results)-1)]) {
			o.report(n, "return overwrites %s", in(o.Pass, v.Type()))
		}
	}
}

// results returns the names of the results of the innermost function.
func results(stack []ast.Node) (names []*ast.Ident) {
	for i := len(stack) - 1; i >= 0; i-- {
		var typ *ast.FuncType
		switch f := stack[i].(type) {
		case *ast.FuncDecl:
			typ = f.Type
		case *ast.FuncLit:
			typ = f.Type
		default:
			continue
		}
		if typ.Results != nil {
			for _, field := range typ.Results.List {
				names = append(names, field.Names...)
			}
		}
		break
	}
	return names
}

// call reports a call that moves, copies or clears the elements of a slice or a map, except of a generic function.
func (o *overwrites) call(n *ast.CallExpr) {
	if len(n.Args) == 0 {
		return
	}
	first, ok := o.elementHolds(o.TypesInfo.TypeOf(n.Args[0]))
	switch f := typeutil.Callee(o.TypesInfo, n).(type) {
	case *types.Builtin:
		switch {
		case !ok:
		case f.Name() == "append":
			o.report(n, "append may move the elements, which copies %s: use a slice of pointers", in(o.Pass, first))
		case f.Name() == "copy":
			o.report(n, "copy overwrites and copies %s", in(o.Pass, first))
		case f.Name() == "clear":
			o.report(n, "clear overwrites %s", in(o.Pass, first))
		}
	case *types.Func:
		if ok && (f.FullName() == "sort.Slice" || f.FullName() == "sort.SliceStable") { // by reflection
			o.report(n, "%s copies %s: use a slice of pointers", f.FullName(), in(o.Pass, first))
		}
	}
}

// dereference reports a copy of what the result of a call points to. Copylocks does not, because that may be new.
func (o *overwrites) dereference(n *ast.StarExpr, stack []ast.Node) {
	call, ok := ast.Unparen(n.X).(*ast.CallExpr)
	if !ok {
		return
	}
	t := o.TypesInfo.TypeOf(n)
	if b := builtin(o.TypesInfo, call); b != nil && b.Name() == "new" || !o.holds(t) {
		return
	}
	var x ast.Node = n // with the parentheses around it
	for i := len(stack) - 1; i >= 0; i-- {
		switch parent := stack[i].(type) {
		case *ast.ParenExpr:
			x = parent
			continue
		case *ast.AssignStmt:
			if parent.Tok != token.DEFINE || x.Pos() < parent.TokPos {
				return // assignment reports it
			}
		case *ast.CallExpr:
			if b := builtin(o.TypesInfo, parent); b != nil && !copiesArguments(b) {
				return
			}
		case *ast.KeyValueExpr, *ast.CompositeLit, *ast.ReturnStmt, *ast.SendStmt, *ast.ValueSpec:
		default:
			return
		}
		o.report(n, "%s copies %s", types.ExprString(n), in(o.Pass, t))
		return
	}
}

// isMapValue reports whether x is a value of a map, which Bind cannot bind. The type of the map is reported instead.
func (o *overwrites) isMapValue(x ast.Expr) bool {
	index, ok := ast.Unparen(x).(*ast.IndexExpr)
	if !ok {
		return false
	}
	_, ok = o.TypesInfo.TypeOf(index.X).Underlying().(*types.Map)
	return ok
}
