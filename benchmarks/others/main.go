// Command others measures programs that others wrote, as they come and with this library in place of their own timers:
//
//	go run ./others            # from the folder benchmarks: lists the programs
//	go run ./others -rounds 3 etcd
//
// A folder of programs has a change of one program and a test that measures it. The command fetches the module of the program,
// makes a copy for each variant, applies the change, and runs the test of all variants in turns. It needs git, and network access
// to fetch modules.
package main

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

//go:embed programs
var programs embed.FS

const library = "github.com/hashedwheel/hashedwheel"

func main() {
	rounds := flag.Int("rounds", 3, "how many times each variant runs; the figures are medians, with the least and the greatest.\nWith 0 it only builds them")
	flag.Parse()
	if err := run(os.Stdout, *rounds, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "others:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, rounds int, names []string) error {
	if rounds < 0 {
		return fmt.Errorf("-rounds is %d", rounds)
	}
	all, err := list()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		for _, p := range all {
			fmt.Fprintf(out, "%s\t%s\n", p.name, p.module)
		}
		return nil
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(p program) bool { return p.name == name })
		if i < 0 {
			return fmt.Errorf("there is no program %q", name)
		}
		if err := all[i].measure(out, rounds); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// A program is what others wrote, with a change of ours.
type program struct {
	name   string
	module string // with its version
	dir    string // of the package that is measured, in the module
}

// A variant is a program as it comes, or after a patch.
type variant struct {
	name    string // the test finds it in the environment variable OTHERS_VARIANT
	heading string
	patch   string
}

var variants = []variant{
	{"before", "as it comes", ""},
	{"plain", "with a plain change", "change-plain.patch"}, // without this library
	{"after", "with hashedwheel", "change.patch"},
}

// list returns the programs. The file module.txt has the module, and then the folder of the package.
func list() ([]program, error) {
	dirs, err := programs.ReadDir("programs")
	if err != nil {
		return nil, err
	}
	var all []program
	for _, d := range dirs {
		text, err := programs.ReadFile(path.Join("programs", d.Name(), "module.txt"))
		if err != nil {
			return nil, err
		}
		fields := strings.Fields(string(text))
		if len(fields) != 2 {
			return nil, fmt.Errorf("%s/module.txt must have a module and a folder", d.Name())
		}
		all = append(all, program{d.Name(), fields[0], fields[1]})
	}
	return all, nil
}

// A figure is a line of the measuring test: its name, its value and its unit, with tabs between them.
type figure struct{ name, unit string }

func (p program) measure(out io.Writer, rounds int) error {
	work, err := os.MkdirTemp("", "others-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	source, err := download(p.module)
	if err != nil {
		return err
	}
	root, err := command("", "go", "list", "-m", "-f", "{{.Dir}}", library)
	if err != nil {
		return err
	}
	var measured []variant
	for _, v := range variants {
		if _, err := fs.Stat(programs, path.Join("programs", p.name, v.patch)); err != nil {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s %s: building\n", p.name, v.heading)
		if err := p.build(v, source, strings.TrimSpace(root), filepath.Join(work, v.name)); err != nil {
			return fmt.Errorf("%s: %w", v.heading, err)
		}
		measured = append(measured, v)
	}
	var order []figure
	values := map[figure]map[string][]float64{}
	for round := range rounds {
		for _, v := range measured {
			fmt.Fprintf(os.Stderr, "%s %s: round %d\n", p.name, v.heading, round+1)
			figures, err := p.once(v, filepath.Join(work, v.name))
			if err != nil {
				return fmt.Errorf("%s: %w", v.heading, err)
			}
			for _, f := range figures {
				if values[f.figure] == nil {
					values[f.figure] = map[string][]float64{}
					order = append(order, f.figure)
				}
				values[f.figure][v.name] = append(values[f.figure][v.name], f.value)
			}
		}
	}
	if rounds == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s", p.module)
	for _, v := range measured {
		fmt.Fprintf(table, "\t%s", v.heading)
	}
	fmt.Fprintln(table)
	for _, f := range order {
		fmt.Fprintf(table, "%s, %s", f.name, f.unit)
		for _, v := range measured {
			fmt.Fprintf(table, "\t%s", spread(values[f][v.name]))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// spread formats the median of some values, with the least and the greatest if there are several.
func spread(values []float64) string {
	if len(values) == 0 {
		return "none"
	}
	slices.Sort(values)
	text := fmt.Sprintf("%.3g", values[len(values)/2])
	if len(values) > 1 {
		text += fmt.Sprintf(" (%.3g to %.3g)", values[0], values[len(values)-1])
	}
	return text
}

// build makes a copy of the program in dir, with the change of a variant, and compiles its measuring test.
func (p program) build(v variant, source, root, dir string) error {
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		return err
	}
	if v.patch != "" {
		patch, err := programs.ReadFile(path.Join("programs", p.name, v.patch))
		if err != nil {
			return err
		}
		if len(patch) > 0 {
			cmd := exec.Command("git", "apply", "--unidiff-zero", "-")
			cmd.Dir, cmd.Stdin = dir, bytes.NewReader(patch)
			cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // not part of another repository
			if text, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("git apply: %w: %s", err, text)
			}
		}
	}
	test, err := programs.ReadFile(path.Join("programs", p.name, "measure_test.go.txt"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, p.dir, "measure_test.go"), test, 0o666); err != nil {
		return err
	}
	if err := dropLocal(dir); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mod", "edit", "-require", library + "@v1.0.0", "-replace", library + "=" + root},
		{"get", library + "@v1.0.0"}, // raises the version of Go in go.mod, in each variant, if it is too old for this library
		{"test", "-c", "-o", "measure.test", "./" + p.dir},
	} {
		if _, err := command(dir, "go", args...); err != nil {
			return err
		}
	}
	return nil
}

// dropLocal removes from a go.mod what replaces modules by folders beside it, which a module that was fetched lacks.
func dropLocal(dir string) error {
	text, err := command(dir, "go", "mod", "edit", "-json")
	if err != nil {
		return err
	}
	var mod struct {
		Replace []struct {
			Old, New struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal([]byte(text), &mod); err != nil {
		return err
	}
	for _, r := range mod.Replace {
		if r.New.Version == "" {
			if _, err := command(dir, "go", "mod", "edit", "-dropreplace", r.Old.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

type value struct {
	figure
	value float64
}

// once runs the measuring test of a variant.
func (p program) once(v variant, dir string) ([]value, error) {
	cmd := exec.Command(filepath.Join(dir, "measure.test"), "-test.run", "^TestMeasure$", "-test.v", "-test.timeout", "5m")
	cmd.Dir = filepath.Join(dir, p.dir)
	cmd.Env = append(os.Environ(), "OTHERS_VARIANT="+v.name)
	text, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return parse(text)
}

// parse finds the figures in the output of a measuring test.
func parse(text []byte) ([]value, error) {
	var all []value
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, line, ok := strings.Cut(lines.Text(), "measure: ")
		if !ok {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("not a figure: %q", line)
		}
		x, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return nil, err
		}
		all = append(all, value{figure{fields[0], fields[2]}, x})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the test printed no figure: %s", text)
	}
	return all, lines.Err()
}

// download returns the folder of a module, which cannot be written to.
func download(module string) (string, error) {
	text, err := command("", "go", "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var m struct{ Dir string }
	err = json.Unmarshal([]byte(text), &m)
	return m.Dir, err
}

// command runs a command and returns what it prints.
func command(dir, name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, &stderr
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s%s", name, strings.Join(args, " "), err, text, &stderr)
	}
	return string(text), nil
}
