package repository

import (
	"flag"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "TestAPI rewrites api.txt")

// stable has the directories of the packages to which, from 1.0 on, names are only added.
var stable = []string{".", "./clock", "./idle", "./keyed", "./wheeldebug"}

// The file api.txt has a line for each exported name of the stable packages: each constant, variable, function, type, method
// and field, with its type, as the files api/*.txt of Go.
func TestAPI(t *testing.T) {
	t.Parallel()
	var lines []string
	in := newImporter(t, stable...)
	require.Equal(t, stable, importable(t), "Are these the packages that programs can import?")
	for _, dir := range stable {
		lines = append(lines, surfaceOf(t, in, path.Join(root, dir), path.Join("hashedwheel", dir))...)
	}
	slices.Sort(lines)
	const file = root + "/api.txt"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o666))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	listed := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	without := func(all, some []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) }), "\n")
	}
	assert.NotContains(t, strings.Join(lines, "\n"), "/internal/", "What a type of an internal package has is not in api.txt.")
	const how = "If this is intended: go test -run TestAPI ./internal/repository -update"
	assert.Empty(t, without(listed, lines), "These lines of api.txt are no longer true. "+how)
	assert.Empty(t, without(lines, listed), "These lines are not in api.txt. "+how)
	assert.True(t, t.Failed() || slices.Equal(listed, lines), "api.txt is not sorted, or has a line twice. "+how)
}

// testdata/surface has something of everything. Each line about what only some platforms have names them.
func TestSurface(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/surface.txt")
	require.NoError(t, err)
	got := surfaceOf(t, newImporter(t, "io", "iter", "math/rand/v2", "time"), "testdata/surface", "surface")
	require.Equal(t, string(want), strings.Join(got, "\n")+"\n")
}

// newImporter returns an importer that reads what the go command has compiled: the given packages, and all that they import.
func newImporter(t *testing.T, packages ...string) types.Importer {
	t.Helper()
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command to compile the packages")
	}
	list := exec.Command(goCommand, append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, packages...)...)
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	compiled := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[name] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) { return os.Open(compiled[name]) })
}

// importable returns the directories of the packages that other modules can import.
func importable(t *testing.T) (dirs []string) {
	t.Helper()
	list := exec.Command("go", "list", "-f", "{{.Name}} {{.ImportPath}}", "./...")
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), " github.com/hashedwheel/hashedwheel")
		if name != "main" && !strings.Contains(dir, "/internal/") {
			dirs = append(dirs, "."+dir)
		}
	}
	return dirs
}

// platforms are those on which the library is tested, in .ci/run or every night.
var platforms = []string{"darwin/arm64", "js/wasm", "linux/386", "linux/amd64", "linux/s390x", "windows/amd64"}

// surfaceOf returns the lines for the package in a directory, sorted. Each begins with the given name of the package.
func surfaceOf(t *testing.T, in types.Importer, dir, name string) []string {
	t.Helper()
	on := make(map[string][]string) // the platforms of each line
	for _, platform := range platforms {
		context := build.Default
		context.GOOS, context.GOARCH, _ = strings.Cut(platform, "/")
		pkg, err := context.ImportDir(dir, 0)
		require.NoError(t, err)
		fset := token.NewFileSet()
		var files []*ast.File
		for _, file := range pkg.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(dir, file), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			dropNames(f)
			files = append(files, f)
		}
		conf := types.Config{Importer: in, IgnoreFuncBodies: true}
		checked, err := conf.Check(name, fset, files, nil)
		require.NoError(t, err, platform)
		for _, line := range linesOf(checked) {
			on[line] = append(on[line], platform)
		}
	}
	var lines []string
	for line, some := range on {
		mark := ""
		if len(some) < len(platforms) {
			mark = " (" + strings.Join(some, ", ") + ")"
		}
		lines = append(lines, "pkg "+name+mark+", "+line)
	}
	slices.Sort(lines)
	return lines
}

// dropNames removes the names of all parameters and results, because they may change. Those of promoted methods of other
// packages stay.
func dropNames(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncType); ok {
			for _, list := range []*ast.FieldList{f.Params, f.Results} {
				if list == nil {
					continue
				}
				var nameless []*ast.Field
				for _, field := range list.List {
					nameless = append(nameless, slices.Repeat([]*ast.Field{{Type: field.Type}}, max(1, len(field.Names)))...)
				}
				list.List = nameless
			}
		}
		return true
	})
}

// linesOf returns the lines for a package, each without the name of the package.
func linesOf(pkg *types.Package) []string {
	s := surface{pkg: pkg}
	for _, name := range pkg.Scope().Names() {
		if token.IsExported(name) {
			s.object(name)
		}
	}
	// What a type without an exported name has is in reach too, if a line mentions the type.
	mentioned := make(map[string]bool)
	for i := 0; i < len(s.lines); i++ {
		for _, found := range unexportedName.FindAllStringSubmatch(s.lines[i], -1) {
			name := found[1]
			if _, isType := pkg.Scope().Lookup(name).(*types.TypeName); isType && !mentioned[name] {
				mentioned[name] = true
				s.object(name)
			}
		}
	}
	return s.lines
}

// unexportedName matches words that may be names of the package: no others have a dot or a slash before them.
var unexportedName = regexp.MustCompile(`(?:^|[^\w./])([a-z_]\w*)`)

// A surface collects the lines for a package.
type surface struct {
	pkg   *types.Package
	lines []string
}

func (s *surface) say(parts ...string) { s.lines = append(s.lines, strings.Join(parts, "")) }

// object says the lines for a name of the package, if there is one.
func (s *surface) object(name string) {
	switch obj := s.pkg.Scope().Lookup(name).(type) {
	case *types.Const:
		s.say("const ", name, " ", s.of(obj.Type()))
		s.say("const ", name, " = ", obj.Val().ExactString())
	case *types.Var:
		s.say("var ", name, " ", s.of(obj.Type()))
	case *types.Func:
		s.say("func ", s.signature(obj))
	case *types.TypeName:
		if obj.IsAlias() {
			s.say("type ", s.of(obj.Type()), " = ", s.of(types.Unalias(obj.Type())))
		} else {
			s.typeName(obj.Type().(*types.Named))
		}
	}
}

// of returns a type as a file of the package has it, except that other packages have their paths: some share a name.
func (s *surface) of(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == s.pkg {
			return ""
		}
		return strings.TrimPrefix(p.Path(), "github.com/hashedwheel/")
	})
}

func (s *surface) signature(f types.Object) string {
	return f.Name() + strings.TrimPrefix(s.of(f.Type()), "func")
}

// typeName says the lines for a type: what it is, its fields, and its methods, also promoted ones.
func (s *surface) typeName(t *types.Named) {
	declared := "type " + s.of(t)
	if params := t.TypeParams(); params.Len() > 0 { // a method may give them other names
		var args []types.Type
		for p := range params.TypeParams() {
			args = append(args, p)
		}
		generic, _ := types.Instantiate(nil, t, args, false)
		t = generic.(*types.Named)
	}
	switch u := t.Underlying().(type) {
	case *types.Interface:
		s.interfaceType(declared, u)
		return
	case *types.Struct:
		if t.Obj().Exported() {
			s.say(declared, " struct")
		}
		s.fields(declared, t, u)
	default:
		s.say(declared, " ", s.of(u))
	}
	values := types.NewMethodSet(t)
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		if f := m.Obj(); f.Exported() {
			receiver := "*"
			if values.Lookup(s.pkg, f.Name()) != nil {
				receiver = ""
			}
			s.say("method (", receiver, s.of(t), ") ", s.signature(f))
		}
	}
}

// fields says the lines for the fields of a struct in a type. An embedded struct without an exported name promotes its fields,
// so they are listed too.
func (s *surface) fields(declared string, in types.Type, t *types.Struct) {
	for i := range t.NumFields() {
		f, tag := t.Field(i), ""
		if t.Tag(i) != "" {
			tag = " `" + t.Tag(i) + "`"
		}
		embedded := f.Type().Underlying()
		if pointer, ok := embedded.(*types.Pointer); ok {
			embedded = pointer.Elem().Underlying()
		}
		reached, _, _ := types.LookupFieldOrMethod(in, true, s.pkg, f.Name())
		switch embedded, isStruct := embedded.(*types.Struct); {
		case f.Exported() && reached != f: // another field or a method hides it
		case f.Exported() && f.Embedded():
			s.say(declared, " struct, embedded ", s.of(f.Type()), tag)
		case f.Exported():
			s.say(declared, " struct, ", f.Name(), " ", s.of(f.Type()), tag)
		case f.Embedded() && isStruct:
			s.fields(declared, in, embedded)
		}
	}
}

// interfaceType says the lines for an interface: all its methods, because a program that implements it needs them all, and
// each of them.
func (s *surface) interfaceType(declared string, t *types.Interface) {
	if !t.IsMethodSet() {
		s.say(declared, " ", s.of(t))
		return
	}
	var all []string
	hidden := false
	for m := range t.Methods() {
		if m.Exported() {
			all = append(all, m.Name())
			s.say(declared, " interface, ", s.signature(m))
		} else {
			hidden = true
		}
	}
	slices.Sort(all)
	if hidden {
		all = append(all, "unexported methods")
	}
	s.say(declared, " interface { ", strings.Join(all, ", "), " }")
}
