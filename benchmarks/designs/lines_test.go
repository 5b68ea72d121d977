package designs

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/hashedwheel/hashedwheel/internal/explore/rewrite"
)

var update = flag.Bool("update", false, "TestLines rewrites the table of lines.md")

// At the end of lines.md is the table that testdata/lines prints.
func TestLines(t *testing.T) {
	table, _, _ := strings.Cut(rewrite.Lines(t, ".", "github.com/hashedwheel/hashedwheel"), "PASS")
	text, err := os.ReadFile("../lines.md")
	head, old, _ := strings.Cut(string(text), "| --- |\n")
	if *update {
		err = os.WriteFile("../lines.md", []byte(head+"| --- |\n"+table), 0o666)
	} else if old != table {
		t.Errorf("The table is no longer true. If this is intended: go test -run TestLines ./designs -update\n%s", table)
	}
	if err != nil {
		t.Fatal(err)
	}
}
