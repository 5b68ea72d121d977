// Command benchmarks compares hashedwheel with the timers that a user could pick instead. All timers do the same work
// in the same run.
// See README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
)

func main() {
	if spec := os.Getenv(cellEnv); spec != "" {
		runCell(spec)
		return
	}
	if err := program(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func program(args []string) error {
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	short := flags.Bool("short", false, "everything in under 5 minutes, with small numbers: a check, not a measurement")
	runs := flags.Int("runs", 0, "number of rounds; the figures are the medians of the rounds (default 3, 5 with -against,\nor 1 with -short)")
	only := flags.String("only", "", "run only the floor, and the cells whose `workload/peer` matches this\nregular expression")
	out := flags.String("out", "", "write result.json, tables.md and the charts to this `directory`")
	draw := flags.String("draw", "", "do not measure: print the tables of this `result.json` again, and with\n-out write the files again")
	commit := flags.String("against", "", "compare this library with that of this `commit`, in the same rounds; without -only in\nthe cells of this library that matter most")
	procs := flags.String("procs", "", "run each cell with each value of GOMAXPROCS in this `list`, for example 1,2,4")
	scaling := flags.String("scaling", "", "measure with 1, 2, 4, ... processors, and write result.json and scaling.html to\nthis `directory`; with -draw only write them")
	list := flags.Bool("list", false, "list the workloads and the peers, and exit")
	if err := flags.Parse(args); err != nil {
		if err == flag.ErrHelp {
			return nil
		}
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
	if *scaling != "" {
		if *only == "" {
			match = scalingCells
		}
		if counts == nil {
			counts = doublings(runtime.GOMAXPROCS(0))
		}
	}
	if *commit != "" && *only == "" {
		match = againstCells
	}
	if *runs == 0 {
		switch {
		case *short:
			*runs = 1
		case *commit != "":
			*runs = againstRuns
		default:
			*runs = 3
		}
	}
	var res *result
	if *draw != "" {
		res, err = readResult(*draw)
	} else {
		if err := measurable(); err != nil {
			return err
		}
		res = newResult(*short, *runs)
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if *commit != "" {
			dir, err := os.MkdirTemp("", "benchmarks")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			if res.Against, res.opponent, err = buildAgainst(ctx, *commit, dir); err != nil {
				return fmt.Errorf("-against %s: %w", *commit, err)
			}
		}
		err = res.measure(ctx, match, counts, os.Stderr)
	}
	if err != nil {
		return err
	}
	res.writeTables(os.Stdout)
	res.writeComparison(os.Stdout)
	if *out != "" {
		if err := res.write(*out); err != nil {
			return err
		}
	}
	if *scaling != "" {
		page, err := res.scalingPage()
		if err != nil {
			return err
		}
		if err := res.save(*scaling, map[string][]byte{"scaling.html": page}); err != nil {
			return err
		}
	}
	return res.ownFaults()
}
