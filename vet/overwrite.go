package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// Overwrite reports where a hashedwheel.Timeout is overwritten or copied, except for the copies that copylocks of go vet
// reports.
var Overwrite = &analysis.Analyzer{
	Name: "overwrite",
	Doc: `report where a hashedwheel.Timeout is overwritten or copied

After Init, the timer may use a Timeout until long after its end. So the struct that holds it must never be
overwritten or copied, or the program may crash. To clear the struct, clear its other fields. To keep many in a
slice or a map, keep pointers.

Copies that the analyzer copylocks of go vet reports are not reported again. Nothing is reported of a line with a
comment //hashedwheelvet:ignore that says why.`,
	URL:      "https://pkg.go.dev/github.com/hashedwheel/hashedwheel/vet#Overwrite",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      runOverwrite,
}

// movers are the functions that move or copy the elements of a slice, which is their first argument or their result.
var movers = map[string]map[string]bool{
	"slices": {
		"AppendSeq": true, "Clone": true, "Collect": true, "Compact": true, "CompactFunc": true, "Concat": true,
		"Delete": true, "DeleteFunc": true, "Grow": true, "Insert": true, "Repeat": true, "Replace": true,
		"Reverse": true, "SortFunc": true, "SortStableFunc": true, "SortedFunc": true, "SortedStableFunc": true,
	},
	"sort": {"Slice": true, "SliceStable": true},
}

type overwrites struct {
	*analysis.Pass
	addressed map[types.Object]bool   // the local variables whose address is taken
	ignored   map[string]map[int]bool // the lines of each file that have a directive
}

// A directive at the end of a line, with a reason behind it, says that what is reported of this line is right.
const directive = "//hashedwheelvet:ignore"

func runOverwrite(pass *analysis.Pass) (any, error) {
	o := overwrites{pass, make(map[types.Object]bool), make(map[string]map[int]bool)}
	o.findDirectives()
	ins := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	ins.Preorder([]ast.Node{(*ast.UnaryExpr)(nil), (*ast.SelectorExpr)(nil), (*ast.SliceExpr)(nil)}, o.findAddress)
	ins.WithStack([]ast.Node{
		(*ast.AssignStmt)(nil), (*ast.CallExpr)(nil), (*ast.MapType)(nil), (*ast.SendStmt)(nil), (*ast.StarExpr)(nil),
	}, func(n ast.Node, push bool, stack []ast.Node) bool {
		if !push {
			return true
		}
		switch n := n.(type) {
		case *ast.AssignStmt:
			o.assignment(n)
		case *ast.CallExpr:
			o.call(n)
		case *ast.MapType:
			if t := o.TypesInfo.TypeOf(n.Value); holds(t) {
				o.report(n.Value, "Init cannot bind %s as the value of a map: use a pointer", in(pass, t))
			}
		case *ast.SendStmt:
			if t := o.TypesInfo.TypeOf(n.Value); holds(t) && copied(o.TypesInfo, n.Value) {
				o.report(n.Value, "send copies %s", in(pass, t))
			}
		case *ast.StarExpr:
			o.dereference(n, stack)
		}
		return true
	})
	return nil, nil
}

func (o *overwrites) findDirectives() {
	for _, file := range o.Files {
		for _, group := range file.Comments {
			for _, c := range group.List {
				reason, ok := strings.CutPrefix(c.Text, directive)
				if !ok {
					continue
				}
				if strings.TrimSpace(reason) == "" {
					o.ReportRangef(c, "%s needs a reason", directive)
					continue
				}
				at := o.Fset.Position(c.Pos())
				if o.ignored[at.Filename] == nil {
					o.ignored[at.Filename] = make(map[int]bool)
				}
				o.ignored[at.Filename][at.Line] = true
			}
		}
	}
}

// report reports a problem, unless the line on which it begins has a directive.
func (o *overwrites) report(n ast.Node, format string, args ...any) {
	at := o.Fset.Position(n.Pos())
	if !o.ignored[at.Filename][at.Line] {
		o.ReportRangef(n, format, args...)
	}
}

// assignment reports the variables on the left that are overwritten.
func (o *overwrites) assignment(n *ast.AssignStmt) {
	for i, left := range n.Lhs {
		right := n.Rhs[min(i, len(n.Rhs)-1)] // one call may have several results
		t := o.TypesInfo.TypeOf(left)
		if !holds(t) || copied(o.TypesInfo, right) {
			continue
		}
		if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE && o.TypesInfo.Defs[id] != nil {
			continue
		}
		if root := o.local(left); root != nil && !o.addressed[root] || o.isMapValue(left) {
			continue
		}
		o.report(n, "assignment to %s overwrites %s", types.ExprString(left), in(o.Pass, t))
	}
}

// call reports a call that moves, copies or clears the elements of a slice or a map.
func (o *overwrites) call(n *ast.CallExpr) {
	if len(n.Args) == 0 {
		return
	}
	first, ok := elementHolds(o.TypesInfo.TypeOf(n.Args[0]))
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
		if f.Pkg() == nil || !movers[f.Pkg().Path()][f.Name()] {
			return
		}
		if !ok {
			first, ok = elementHolds(o.TypesInfo.TypeOf(n))
		}
		if ok {
			o.report(n, "%s.%s moves or copies %s: use a slice of pointers", f.Pkg().Name(), f.Name(), in(o.Pass, first))
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
	if f, ok := typeutil.Callee(o.TypesInfo, call).(*types.Builtin); ok && f.Name() == "new" || !holds(t) {
		return
	}
	var x ast.Node = n // with the parentheses around it
	for i := len(stack) - 2; i >= 0; i-- {
		switch parent := stack[i].(type) {
		case *ast.ParenExpr:
			x = parent
			continue
		case *ast.AssignStmt:
			if parent.Tok != token.DEFINE || x.Pos() < parent.TokPos {
				return // assignment reports it
			}
		case *ast.CallExpr:
			if b, ok := typeutil.Callee(o.TypesInfo, parent).(*types.Builtin); ok && b.Name() != "append" {
				return // such as len, which copies nothing
			}
		case *ast.KeyValueExpr, *ast.CompositeLit, *ast.ReturnStmt, *ast.SendStmt, *ast.ValueSpec:
		default:
			return
		}
		o.report(n, "%s copies %s", types.ExprString(n), in(o.Pass, t))
		return
	}
}

// findAddress notes a variable whose address is taken. Only such a variable can be bound by Init.
func (o *overwrites) findAddress(n ast.Node) {
	var x ast.Expr
	switch n := n.(type) {
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			x = n.X
		}
	case *ast.SelectorExpr: // a call of a method with a pointer receiver
		if s := o.TypesInfo.Selections[n]; s != nil && s.Kind() == types.MethodVal {
			x = n.X
		}
	case *ast.SliceExpr:
		x = n.X
	}
	if x != nil {
		if root := o.local(x); root != nil {
			o.addressed[root] = true
		}
	}
}

// local returns the local variable that x is a part of. It returns nil if x is a part of something else, or is reached by a
// pointer.
func (o *overwrites) local(x ast.Expr) types.Object {
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		v, ok := o.TypesInfo.ObjectOf(x).(*types.Var)
		if ok && !v.IsField() && v.Parent() != nil && v.Parent() != v.Pkg().Scope() {
			return v
		}
	case *ast.SelectorExpr:
		if s := o.TypesInfo.Selections[x]; s != nil && s.Kind() == types.FieldVal && !s.Indirect() {
			return o.local(x.X)
		}
	case *ast.IndexExpr:
		if t := o.TypesInfo.TypeOf(x.X); t != nil {
			if _, ok := t.Underlying().(*types.Array); ok {
				return o.local(x.X)
			}
		}
	}
	return nil
}

// isMapValue reports whether x is a value of a map, which Init cannot bind. The type of the map is reported instead.
func (o *overwrites) isMapValue(x ast.Expr) bool {
	index, ok := ast.Unparen(x).(*ast.IndexExpr)
	if !ok {
		return false
	}
	_, ok = o.TypesInfo.TypeOf(index.X).Underlying().(*types.Map)
	return ok
}
