package rewrite

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	explorer     = "github.com/hashedwheel/hashedwheel/internal/explore"
	explorerName = "explorer" // its name in the rewritten files
)

// An edit replaces the text between two offsets.
type edit struct {
	from, to int
	text     string
}

// A rewriter collects the edits of one file.
type rewriter struct {
	fset  *token.FileSet
	types *types.Info
	src   []byte
	edits []edit
	used  bool // something refers to explorerName
}

// rewrite puts the gates of the explorer into a source file. The numbers of the lines stay the same.
func (p *pkg) rewrite(name string) ([]byte, error) {
	src, file := p.sources[name], p.files[name]
	w := &rewriter{fset: p.fset, types: &p.info, src: src}
	timeUsed := false
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		switch path {
		case "sync", "sync/atomic", "runtime":
			if spec.Name != nil {
				return nil, fmt.Errorf("%s: the import of %s has a name", name, path)
			}
			w.replace(spec, fmt.Sprintf("%s %q", filepath.Base(path), explorer))
		case "time":
			timeUsed = true
		}
	}
	ast.Inspect(file, w.visit)
	if w.used {
		w.replaceAt(file.Name.End(), file.Name.End(), fmt.Sprintf("; import %s %q", explorerName, explorer))
	}
	slices.SortStableFunc(w.edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	done := 0
	for _, e := range w.edits {
		if e.from < done {
			return nil, fmt.Errorf("%s: two edits in one place, before %q", name, src[e.from:e.to])
		}
		out.Write(src[done:e.from])
		out.WriteString(e.text)
		done = e.to
	}
	out.Write(src[done:])
	if timeUsed && w.used {
		out.WriteString("\nvar _ time.Duration // because the import must be used\n")
	}
	return out.Bytes(), nil
}

func (w *rewriter) replace(n ast.Node, text string) { w.replaceAt(n.Pos(), n.End(), text) }

func (w *rewriter) replaceAt(from, to token.Pos, text string) {
	w.edits = append(w.edits, edit{w.fset.Position(from).Offset, w.fset.Position(to).Offset, text})
}

func (w *rewriter) text(from, to token.Pos) string {
	return string(w.src[w.fset.Position(from).Offset:w.fset.Position(to).Offset])
}

// visit rewrites one node of the syntax tree.
func (w *rewriter) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr: // functions that read the clock or wait
		if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" {
			switch n.Sel.Name {
			case "Now", "Since", "Until", "Sleep", "AfterFunc":
				w.replace(x, explorerName)
				w.used = true
			}
		}
	case *ast.BinaryExpr: // a counter whose value matters only at multiples of a number
		if call, ok := n.X.(*ast.CallExpr); ok && n.Op == token.REM {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && w.isAtomicAdd(f) {
				w.replace(f.Sel, "CyclicAdd")
			}
		}
	case *ast.BlockStmt:
		w.statements(n.List)
	case *ast.CaseClause:
		w.statements(n.Body)
	case *ast.CommClause:
		w.statements(n.Body)
	}
	return true
}

// isAtomicAdd reports whether a function is the method Add of a type of sync/atomic.
func (w *rewriter) isAtomicAdd(f *ast.SelectorExpr) bool {
	if f.Sel.Name != "Add" {
		return false
	}
	t := w.types.TypeOf(f.X)
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := t.(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "sync/atomic"
}

// statements rewrites statements that are operations on channels, or an atomic Add whose result is not used.
func (w *rewriter) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.SelectStmt:
			w.selectStmt(s)
		case *ast.SendStmt:
			w.gate(s, s.Chan)
		case *ast.AssignStmt:
			if c := received(s); c != nil {
				w.gate(s, c)
			}
		case *ast.ExprStmt:
			if c := received(s); c != nil {
				w.gate(s, c)
			}
			call, ok := s.X.(*ast.CallExpr)
			if !ok {
				continue
			}
			switch f := call.Fun.(type) {
			case *ast.Ident:
				if f.Name == "close" {
					w.gate(s, call.Args[0])
				}
			case *ast.SelectorExpr:
				if w.isAtomicAdd(f) {
					w.replace(f.Sel, "BlindAdd")
				}
			}
		}
	}
}

// gate puts a gate before an operation on channels.
func (w *rewriter) gate(s ast.Stmt, channels ...ast.Expr) {
	var args []string
	for _, c := range channels {
		args = append(args, w.text(c.Pos(), c.End()))
	}
	w.replaceAt(s.Pos(), s.Pos(), fmt.Sprintf("%s.Channel(%s); ", explorerName, strings.Join(args, ", ")))
	w.used = true
}

// selectStmt puts a gate before a select. If several cases are possible, the select takes the first of them, so
// that a replay does the same. The next select can take another case.
func (w *rewriter) selectStmt(s *ast.SelectStmt) {
	var channels []ast.Expr
	hasDefault := false
	for _, c := range s.Body.List {
		switch comm := c.(*ast.CommClause).Comm.(type) {
		case nil:
			hasDefault = true
		case *ast.SendStmt:
			channels = append(channels, comm.Chan)
		default:
			channels = append(channels, received(comm))
		}
	}
	w.gate(s, channels...)
	if !hasDefault && len(channels) == 2 {
		first := s.Body.List[0]
		at := w.fset.Position(s.Pos())
		w.replaceAt(s.Pos(), s.Pos(), fmt.Sprintf("select { %s\n default: /*line %s:%d:%d*/",
			w.text(first.Pos(), first.End()), at.Filename, at.Line, at.Column))
		w.replaceAt(s.End(), s.End(), "}")
	}
}

// received returns the channel from which a statement receives, or nil if it does not receive.
func received(s ast.Stmt) ast.Expr {
	var x ast.Expr
	switch s := s.(type) {
	case *ast.ExprStmt:
		x = s.X
	case *ast.AssignStmt:
		x = s.Rhs[0]
	}
	if u, ok := x.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
		return u.X
	}
	return nil
}
