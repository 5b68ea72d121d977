package vet

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// Canceled reports a method Canceled of a hashedwheel.Task that is not that of a hashedwheel.Canceler.
var Canceled = &analysis.Analyzer{
	Name: "canceled",
	Doc: `report a method Canceled of a hashedwheel.Task that is never called

A Task that is also a Canceler is notified when its timeout is canceled. For that, the type must have the method
Canceled(*hashedwheel.Timeout). With any other parameters or results it is no Canceler, and nothing says so.

Nothing is reported of a line with a comment //hashedwheelvet:ignore that says why.`,
	URL:      "https://pkg.go.dev/github.com/hashedwheel/hashedwheel/vet#Canceled",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      runCanceled,
}

func runCanceled(pass *analysis.Pass) (any, error) {
	ignored, _ := findDirectives(pass) // Overwrite reports those without a reason
	reported := make(map[*types.Func]bool)
	ins := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	ins.Preorder([]ast.Node{(*ast.TypeSpec)(nil)}, func(n ast.Node) {
		name, ok := pass.TypesInfo.Defs[n.(*ast.TypeSpec).Name].(*types.TypeName)
		if !ok || name.IsAlias() {
			return
		}
		run, canceled := method(name.Type(), "Run"), method(name.Type(), "Canceled")
		if run == nil || canceled == nil || !takesTimeout(run) || takesTimeout(canceled) || reported[canceled.Origin()] {
			return
		}
		at := name.Pos()
		if canceled.Pkg() == pass.Pkg { // it may be promoted from a field
			at = canceled.Pos()
			reported[canceled.Origin()] = true
		}
		if ignored.has(pass, at) {
			return
		}
		pass.Reportf(at, "method Canceled of %s is not called when its timeout is canceled: want Canceled(*hashedwheel.Timeout)",
			name.Name())
	})
	return nil, nil
}

// method returns the method of a pointer to t, or nil.
func method(t types.Type, name string) *types.Func {
	obj, _, _ := types.LookupFieldOrMethod(types.NewPointer(t), false, nil, name)
	f, _ := obj.(*types.Func)
	return f
}

// takesTimeout reports whether f has the parameters and results of Run of a hashedwheel.Task, and of Canceled of a Canceler.
func takesTimeout(f *types.Func) bool {
	s := f.Signature()
	if s.Params().Len() != 1 || s.Results().Len() != 0 {
		return false
	}
	p, ok := types.Unalias(s.Params().At(0).Type()).(*types.Pointer)
	return ok && isTimeout(p.Elem())
}
