package vet

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"
)

// moves is a fact about a generic function or a method of a generic type. If one of these type parameters holds a
// hashedwheel.Timeout, the function overwrites or copies it. So a use of the function is reported where its type
// arguments are known.
//
// To find out, the body is checked once for each type parameter, which is assumed to hold one. Because copylocks of go vet
// does not know that, copies of variables count too. An argument of a function value does not count: copylocks reports the
// parameter where the function value comes from.
type moves struct{ Params []int }

func (*moves) AFact() {}

func (m *moves) String() string { return fmt.Sprint("moves ", m.Params) }

// checkGeneric finds the facts of the generic functions of the package.
func (o *overwrites) checkGeneric() {
	var decls []*ast.FuncDecl
	for _, file := range o.Files {
		for _, decl := range file.Decls {
			if decl, ok := decl.(*ast.FuncDecl); ok && decl.Body != nil && typeParams(o.function(decl)).Len() > 0 {
				decls = append(decls, decl)
			}
		}
	}
	for more := true; more; { // one may call another
		more = false
		for _, decl := range decls {
			f := o.function(decl)
			for i := range typeParams(f).Len() {
				if m := o.generic[f]; m != nil && slices.Contains(m.Params, i) || !o.checkFor(decl, typeParams(f).At(i)) {
					continue
				}
				if o.generic[f] == nil {
					o.generic[f] = new(moves)
				}
				o.generic[f].Params = append(o.generic[f].Params, i)
				more = true
			}
		}
	}
	for f, m := range o.generic {
		slices.Sort(m.Params)
		o.ExportObjectFact(f, m)
	}
}

func (o *overwrites) function(decl *ast.FuncDecl) *types.Func {
	return o.TypesInfo.Defs[decl.Name].(*types.Func)
}

// checkFor reports whether a function has a problem if a type parameter holds a Timeout.
func (o *overwrites) checkFor(decl *ast.FuncDecl, param *types.TypeParam) bool {
	o.assumed, o.found = param, false
	defer func() { o.assumed = nil }()
	if decl.Recv != nil && o.holds(o.TypesInfo.TypeOf(decl.Recv.List[0].Type)) {
		return true // each call copies the receiver
	}
	o.check(decl.Body, []ast.Node{decl})
	return o.found
}

// typeParams returns the type parameters of a function, or those of the type whose method it is.
func typeParams(f *types.Func) *types.TypeParamList {
	if f.Signature().Recv() != nil {
		return f.Signature().RecvTypeParams()
	}
	return f.Signature().TypeParams()
}

// assumedCopy finds copies of variables that copylocks would report if it knew what is assumed.
func (o *overwrites) assumedCopy(n ast.Node, stack []ast.Node) {
	if o.assumed == nil {
		return
	}
	var all []ast.Expr
	switch n := n.(type) {
	case *ast.AssignStmt:
		all = n.Rhs
	case *ast.ValueSpec:
		all = n.Values
	case *ast.CallExpr:
		b := builtin(o.TypesInfo, n)
		if b != nil && copiesArguments(b) || typeutil.StaticCallee(o.TypesInfo, n) != nil {
			all = n.Args
		}
	case *ast.CompositeLit:
		all = n.Elts
	case *ast.ReturnStmt:
		all = n.Results
	}
	for _, x := range all {
		if pair, ok := x.(*ast.KeyValueExpr); ok {
			x = pair.Value
		}
		if tv := o.TypesInfo.Types[x]; tv.IsValue() && o.holds(tv.Type) && copied(o.TypesInfo, x) && !o.isUnbound(x, n, stack) {
			o.report(x, "a copy") // notes it: nothing is printed while a type parameter is assumed
		}
	}
}

// instance reports the use of a generic function that overwrites or copies what one of its type arguments holds.
func (o *overwrites) instance(n ast.Node) {
	var f *types.Func
	var args *types.TypeList
	switch n := n.(type) {
	case *ast.Ident:
		f, _ = o.TypesInfo.Uses[n].(*types.Func)
		args = o.TypesInfo.Instances[n].TypeArgs
	case *ast.SelectorExpr:
		if s := o.TypesInfo.Selections[n]; s != nil {
			if f, _ = s.Obj().(*types.Func); f != nil {
				args = receiverArgs(f)
			}
		}
	}
	if f == nil || args == nil {
		return
	}
	m := o.generic[f.Origin()]
	if m == nil {
		m = new(moves)
		o.ImportObjectFact(f.Origin(), m)
	}
	for _, i := range m.Params {
		if t := args.At(i); o.holds(t) {
			name := f.Name()
			if f.Pkg() != o.Pkg {
				name = f.Pkg().Name() + "." + name
			}
			o.report(n, "%s overwrites or copies %s", name, in(o.Pass, t))
			return
		}
	}
}

// receiverArgs returns the type arguments of the receiver of a method.
func receiverArgs(f *types.Func) *types.TypeList {
	t := f.Signature().Recv().Type()
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		return named.TypeArgs()
	}
	return nil
}
