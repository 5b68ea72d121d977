// Command benchmarks compares hashedwheel with the timers that a user could pick instead. All timers do the same work
// in the same run.
// See README.md.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
	"github.com/hashedwheel/hashedwheel/benchmarks/report"
	"github.com/hashedwheel/hashedwheel/benchmarks/work"
)

// scalingCells matches the cells of -scaling. Package time has a heap for each processor, and this library has one worker,
// so the number of processors matters to both. Where timeouts are kept, both arm them again.
var scalingCells = regexp.MustCompile(
	`^(schedule-cancel-parallel(-heap)?|cancel-by-other|reset-parallel|fire|rpc|storm-(at-once|later|by-other))/(hashedwheel|time)$` +
		`|^reuse-parallel/(hashedwheel, embedded|time, reused)$`)

func main() {
	work.RunCell()
	if err := program(os.Args[1:]); err != nil && err != flag.ErrHelp {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func program(args []string) error {
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	short := flags.Bool("short", false, "everything in under 5 minutes, with small numbers: a check, not a measurement")
	runs := flags.Int("runs", 0, "number of rounds; the figures are the medians of the rounds (default 3, 5 with -against,\nor 1 with -short)")
	only := flags.String("only", "", "run only the floor, and the cells whose `workload/peer` matches this\nregular expression")
	out := flags.String("out", "", "write result.json, result.txt, tables.md and the charts to this `directory`")
	draw := flags.String("draw", "", "do not measure: print the tables of this `result.json` again, and with\n-out write the files again")
	against := flags.String("against", "", "compare this library with that of this `commit`, in the same rounds; without -only in\nthe cells of this library that matter most")
	procs := flags.String("procs", "", "run each cell with each value of GOMAXPROCS in this `list`, for example 1,2,4")
	scaling := flags.Bool("scaling", false, "measure with 1, 2, 4, ... processors; without -only in the cells in which they matter")
	list := flags.Bool("list", false, "list the workloads and the peers, and exit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *list {
		printList(os.Stdout)
		return nil
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	counts, err := parseProcs(*procs)
	if err != nil {
		return err
	}
	rounds := work.Rounds{Short: *short, Progress: os.Stderr, Rounds: 3}
	switch {
	case *scaling:
		if *only == "" {
			match = scalingCells
		}
		if counts == nil {
			counts = doublings(runtime.GOMAXPROCS(0))
		}
	case *against != "":
		if *only == "" {
			match = againstCells
		}
		rounds.Rounds = againstRuns
	}
	if *short {
		rounds.Rounds = 1
	}
	rounds.Rounds = cmp.Or(*runs, rounds.Rounds)
	var res *report.Result
	if *draw != "" {
		res, err = report.Read(*draw)
	} else {
		res, err = measure(rounds, *against, match, counts)
	}
	if err != nil {
		return err
	}
	res.WriteTables(os.Stdout)
	if *out != "" {
		if err := res.Write(*out); err != nil {
			return err
		}
	}
	return res.Faults()
}

// measure runs the cells that match until an interrupt.
func measure(rounds work.Rounds, against string, match *regexp.Regexp, procs []int) (*report.Result, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	res := report.New(rounds.Short)
	if against != "" {
		dir, err := os.MkdirTemp("", "benchmarks")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		if res.Against, rounds.Opponent, err = buildAgainst(ctx, against, dir); err != nil {
			return nil, fmt.Errorf("-against %s: %w", against, err)
		}
	}
	cells, err := work.Plan(match, procs, res.Against)
	if err != nil {
		return nil, err
	}
	res.Cells, err = rounds.Measure(ctx, cells)
	return res, err
}

// parseProcs parses the list of -procs.
func parseProcs(list string) (procs []int, err error) {
	if list == "" {
		return nil, nil
	}
	for _, text := range strings.Split(list, ",") {
		// GOMAXPROCS is a signed number of 32 bits in the runtime.
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("-procs: %q is not a positive integer", text)
		}
		if slices.Contains(procs, int(n)) {
			return nil, fmt.Errorf("-procs: %d is in the list twice", n)
		}
		procs = append(procs, int(n))
	}
	return procs, nil
}

// doublings returns 1, 2, 4, and so on below n, and n.
func doublings(n int) (procs []int) {
	for p := 1; p < n; p *= 2 {
		procs = append(procs, p)
	}
	return append(procs, n)
}

func printList(w io.Writer) {
	fmt.Fprintln(w, "workloads:")
	for _, work := range work.List {
		fmt.Fprintf(w, "  %-36s %s: %s\n", work.Name, work.Heading(false), work.About)
	}
	fmt.Fprintln(w, "peers:")
	for _, p := range peers.All {
		fmt.Fprintf(w, "  %-36s %s %s\n", p.Name, p.About, p.Version())
	}
}
