package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// count writes a line of a report.
func count(w io.Writer, name string, n int, note string) {
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-16s %7s  %s", name, commas(n), note), " "))
}

// commas writes a number with a comma between groups of three digits.
func commas(n int) string {
	if n < 0 {
		return "-" + commas(-n)
	}
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", commas(n/1000), n%1000)
}

func millis(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
