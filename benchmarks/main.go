// Command benchmarks compares hashedwheel with the timers that a user could pick instead. All timers do the same work
// in the same run. See README.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

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
	runs := flags.Int("runs", 0, "number of rounds; the figures are the medians of the rounds (default 3, 5 with -against\nor -best, or 1 with -short)")
	only := flags.String("only", "", "run only the floor, and the cells whose `workload/peer` matches this\nregular expression")
	out := flags.String("out", "", "write result.json, result.txt, tables.md and the charts to this `directory`")
	draw := flags.Bool("draw", false, "do not measure: the arguments are files result.json, of one run or of parts of it. Print\ntheir tables, and with -out write all files")
	var readmes []string
	flags.Func("readme", "fill the figures into the tables of this Markdown `file`; may be given several times", func(file string) error {
		readmes = append(readmes, file)
		return nil
	})
	against := flags.String("against", "", "compare this library with that of this `commit`, in the same rounds; without -only in\nthe cells of this library that matter most. With several commits, and commas between them,\nthe table says which is best in each row, and a row that is worse by over 10 % is an error")
	best := flags.Bool("best", false, "as -against, with the commits of best-commits.txt, each of which was the best in some row")
	scaling := flags.Bool("scaling", false, "measure with 1, 2, 4, ... processors; without -only in the cells in which they matter")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !*draw && flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	var commits []string
	if *best {
		if commits, err = parseCommits(bestCommits); err != nil {
			return fmt.Errorf("best-commits.txt: %w", err)
		}
	}
	if *against != "" {
		commits = append(commits, strings.Split(*against, ",")...)
	}
	var procs []int
	rounds := work.Rounds{Short: *short, Progress: os.Stderr, Rounds: 3}
	switch {
	case *scaling:
		if *only == "" {
			match = scalingCells
		}
		procs = doublings(runtime.GOMAXPROCS(0))
	case commits != nil:
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
	if *draw {
		res, err = report.Read(flags.Args()...)
	} else {
		res, err = measure(rounds, commits, match, procs)
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
	for _, file := range readmes {
		if err := res.Fill(file); err != nil {
			return err
		}
	}
	return errors.Join(res.Faults(), res.Worse())
}

// measure runs the cells that match until an interrupt.
func measure(rounds work.Rounds, commits []string, match *regexp.Regexp, procs []int) (res *report.Result, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	res = report.New(rounds.Short)
	cells := work.Plan(match, procs, commits != nil)
	if commits != nil {
		dir, err := os.MkdirTemp("", "benchmarks")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		ids := make([]string, len(commits))
		for i, commit := range slices.Backward(commits) { // so the cells of the first commit come first
			in := filepath.Join(dir, commit)
			if ids[i], cells, err = addOpponents(ctx, commit, in, len(commits) == 1, match, cells); err != nil {
				return nil, fmt.Errorf("-against %s: %w", commit, err)
			}
		}
		res.Against = strings.Join(ids, ",")
	}
	if !slices.ContainsFunc(cells, func(c *work.Cell) bool { return match.MatchString(c.Workload + "/" + c.Peer) }) {
		return nil, fmt.Errorf("-only: no cell (workload/peer) matches %q", match)
	}
	res.Cells, err = rounds.Measure(ctx, cells)
	return res, err
}

// doublings returns 1, 2, 4, and so on below n, and n.
func doublings(n int) (procs []int) {
	for p := 1; p < n; p *= 2 {
		procs = append(procs, p)
	}
	return append(procs, n)
}
