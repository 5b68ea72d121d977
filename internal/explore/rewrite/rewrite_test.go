package rewrite

import (
	"strings"
	"testing"
)

// toyDir is the directory of a package that is rewritten.
const toyDir = "internal/explore/rewrite/testdata/toy"

func TestRewrite(t *testing.T) {
	all, err := newPackages(".")
	check(t, err)
	p, err := all.load(toyDir)
	check(t, err)
	if len(p.sources) != 1 {
		t.Fatalf("%d files", len(p.sources))
	}
	for name, src := range p.sources {
		out, err := p.rewrite(name)
		check(t, err)
		var changed []string
		before, after := strings.Split(string(src), "\n"), strings.Split(string(out), "\n")
		for i, line := range before {
			if after[i] != line {
				changed = append(changed, strings.TrimSpace(after[i]))
			}
		}
		want := []string{
			`package toy; import explorer "github.com/hashedwheel/hashedwheel/internal/explore"`,
			`atomic "github.com/hashedwheel/hashedwheel/internal/explore"`,
			`t.sum.Calls.BlindAdd(1)`,
			`t.counts[n%2].BlindAdd(1)`,
			`counter.BlindAdd(1)`,
			`if counter.CyclicAdd(1)%8 == 0 {`,
			`t.made = explorer.Now().Add(time.Second)`,
			`explorer.Channel(t.wake); t.wake <- n`,
		}
		if got := strings.Join(changed, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("changed lines:\n%s", got)
		}
	}
}

func TestExplore(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program: runs without -short")
	}
	Explore(t, toyDir, "internal/explore/rewrite/testdata/steps", toyDir, "internal/explore/rewrite/testdata/p*t")
}

// What is wrong is an error, and not a search of nothing.
func TestErrors(t *testing.T) {
	all, err := newPackages(".")
	check(t, err)
	const steps = "internal/explore/rewrite/testdata/steps"
	for _, c := range []struct {
		scenarios string
		rewritten []string
		want      string
	}{
		{steps, []string{"none*"}, "nothing was rewritten in none*"},
		{steps, []string{toyDir, "none*"}, "nothing was rewritten in none*"},
		{"none", []string{toyDir}, "no scenarios in none"},
	} {
		err := all.writeOverlay(t.TempDir()+"/overlay.json", toyDir, c.scenarios, c.rewritten)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
