package rewrite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

func TestRewrite(t *testing.T) {
	files, err := overlay("testdata/toy", t.TempDir(), "steps", ".")
	check(t, err)
	name, err := filepath.Abs("testdata/toy/toy.go")
	check(t, err)
	before, err := os.ReadFile(name)
	check(t, err)
	after, err := os.ReadFile(files[name])
	check(t, err)
	lines := strings.Split(string(before), "\n")
	var changed []string
	for i, line := range strings.Split(string(after), "\n") {
		if i >= len(lines) || lines[i] != line {
			changed = append(changed, strings.TrimSpace(line))
		}
	}
	want := `package toy; import explorer "github.com/hashedwheel/hashedwheel/internal/explore"
atomic "github.com/hashedwheel/hashedwheel/internal/explore"
t.sum.Calls.BlindAdd(1)
t.counts[n%2].BlindAdd(1)
counter.BlindAdd(1)
if counter.CyclicAdd(1)%8 == 0 {
t.made = explorer.Now().Add(time.Second)
explorer.Channel(t.wake); t.wake <- n
const blockSize = 2 // smaller in scenes
var _ = explorer.Now
var _ time.Duration
`
	if got := strings.Join(changed, "\n"); got != want {
		t.Errorf("changed lines:\n%s", got)
	}
}

func TestExplore(t *testing.T) {
	Explore(t, "testdata/toy", explore.Scenarios{"Toggle": nil, "Add": nil})
}

// Without scenarios there is an error, and not a search of nothing.
func TestNoScenarios(t *testing.T) {
	if _, err := overlay("testdata/part", t.TempDir(), "steps", "."); err == nil || !strings.Contains(err.Error(), "no scenarios") {
		t.Error(err)
	}
}
