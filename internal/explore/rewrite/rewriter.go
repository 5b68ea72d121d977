package rewrite

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

// explorerName is the name of package explore in the rewritten files.
const explorerName = "explorer"

var explorer = reflect.TypeFor[explore.Run]().PkgPath()

// A rewriter puts the gates of the explorer into a file. It changes the text, and not the syntax tree, so that the
// numbers of the lines stay the same.
type rewriter struct {
	file  *token.File
	info  *types.Info
	src   string
	edits []edit

	lines            bool              // for an explore.Machine
	written, skipped map[ast.Expr]bool // see access
}

// An edit replaces the text between two offsets.
type edit struct {
	from, to int
	text     string
}

func (w *rewriter) rewrite(file *ast.File) []byte {
	w.replace(file.Name.End(), file.Name.End(), fmt.Sprintf("; import %s %q", explorerName, explorer))
	w.replace(file.FileEnd, file.FileEnd, fmt.Sprintf("\nvar _ = %s.Now\n", explorerName)) // each import must be used
	ast.Inspect(file, w.visit)
	slices.SortStableFunc(w.edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	out, done := "", 0
	for _, e := range w.edits {
		out += w.src[done:e.from] + e.text
		done = e.to
	}
	return []byte(out + w.src[done:])
}

func (w *rewriter) replace(from, to token.Pos, text string) {
	w.edits = append(w.edits, edit{w.file.Offset(from), w.file.Offset(to), text})
}

func (w *rewriter) text(n ast.Node) string {
	return w.src[w.file.Offset(n.Pos()):w.file.Offset(n.End())]
}

// smaller are constants that get another value, by name: sizes of what a scene has to fill, and to look through. With
// stackShift, all goroutines have the same seat.
var smaller = map[string]string{"blockSize": "2", "minSlots": "4", "walkChunk": "1", "stackShift": "63"}

// visit rewrites one node of the syntax tree.
func (w *rewriter) visit(n ast.Node) bool {
	if w.lines {
		return w.access(n)
	}
	switch n := n.(type) {
	case *ast.ImportSpec:
		switch imported, _ := strconv.Unquote(n.Path.Value); imported {
		case "sync", "sync/atomic", "runtime":
			w.replace(n.Pos(), n.End(), fmt.Sprintf("%s %q", path.Base(imported), explorer))
		case "time":
			w.replace(w.file.Pos(w.file.Size()), w.file.Pos(w.file.Size()), "var _ time.Duration\n")
		}
	case *ast.SelectorExpr:
		switch w.function(n) {
		case "time.Now", "time.Since", "time.Until", "time.Sleep", "time.AfterFunc":
			w.replace(n.X.Pos(), n.X.End(), explorerName)
		}
	case *ast.ValueSpec:
		if small, ok := smaller[n.Names[0].Name]; ok {
			w.replace(n.Values[0].Pos(), n.Values[0].End(), small)
		}
	case *ast.BinaryExpr: // a counter whose value matters only at multiples of a number
		if n.Op == token.REM {
			w.add(n.X, "CyclicAdd")
		}
	case *ast.ExprStmt:
		w.add(n.X, "BlindAdd")
	case *ast.BlockStmt:
		w.gates(n.List)
	case *ast.CaseClause:
		w.gates(n.Body)
	case *ast.CommClause:
		w.gates(n.Body)
	}
	return true
}

// function returns the name of the function that an expression is, with its package and receiver.
func (w *rewriter) function(x ast.Expr) string {
	if s, ok := x.(*ast.SelectorExpr); ok {
		if f, ok := w.info.Uses[s.Sel].(*types.Func); ok {
			return f.FullName()
		}
	}
	return ""
}

// add gives another name to the method that an expression calls, if it is the method Add of a type of sync/atomic.
func (w *rewriter) add(x ast.Expr, name string) {
	if call, ok := x.(*ast.CallExpr); ok {
		if f := w.function(call.Fun); strings.HasPrefix(f, "(*sync/atomic.") && strings.HasSuffix(f, ").Add") {
			sel := call.Fun.(*ast.SelectorExpr).Sel
			w.replace(sel.Pos(), sel.End(), name)
		}
	}
}

// gates puts a gate before each statement that is an operation on channels. If several cases of a select are possible,
// the select takes the first of them, so that a replay does the same. The next select can take another case.
func (w *rewriter) gates(list []ast.Stmt) {
	for _, s := range list {
		channels := w.channels(s)
		if len(channels) == 0 {
			continue
		}
		w.replace(s.Pos(), s.Pos(), fmt.Sprintf("%s.Channel(%s); ", explorerName, strings.Join(channels, ", ")))
		if s, ok := s.(*ast.SelectStmt); ok && len(channels) == 2 && len(s.Body.List) == 2 {
			at := w.file.Position(s.Pos())
			w.replace(s.Pos(), s.Pos(), fmt.Sprintf("select { %s\n default: /*line %s:%d:%d*/",
				w.text(s.Body.List[0]), at.Filename, at.Line, at.Column))
			w.replace(s.End(), s.End(), "}")
		}
	}
}

// channels returns the channels on which a statement operates: it sends, receives, closes or selects.
func (w *rewriter) channels(s ast.Stmt) (all []string) {
	received := func(x ast.Expr) {
		if u, ok := x.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
			all = append(all, w.text(u.X))
		}
	}
	switch s := s.(type) {
	case *ast.SendStmt:
		all = append(all, w.text(s.Chan))
	case *ast.AssignStmt:
		received(s.Rhs[0])
	case *ast.ExprStmt:
		received(s.X)
		if call, ok := s.X.(*ast.CallExpr); ok && w.text(call.Fun) == "close" {
			all = append(all, w.text(call.Args[0]))
		}
	case *ast.SelectStmt:
		for _, c := range s.Body.List {
			all = append(all, w.channels(c.(*ast.CommClause).Comm)...)
		}
	}
	return all
}
