// Package logtext makes short texts for logs.
package logtext

import (
	"bytes"
	"path"
	"reflect"
	"runtime"
	"strings"
	"time"
)

// Stack returns a stack of debug.Stack as one line: the functions from the one that panicked to the task, such as
// main.charge (main.go:41).
func Stack(stack []byte) string {
	from := bytes.Index(stack, []byte("\npanic("))
	if from < 0 {
		return string(stack)
	}
	var calls []string
	function := ""
	for line := range strings.SplitSeq(string(stack[from+1:]), "\n") {
		if strings.Contains(line, ".(*host).") || strings.Contains(line, "/internal/pool.") {
			break
		}
		place, isPlace := strings.CutPrefix(line, "\t")
		if !isPlace {
			function = line[:max(strings.LastIndexByte(line, '('), 0)] // without the arguments
		} else if function != "panic" && !strings.HasPrefix(function, "runtime.") {
			place, _, _ = strings.Cut(path.Base(place), " +0x")
			calls = append(calls, function+" ("+place+")")
		}
	}
	return strings.Join(calls, ", ")
}

// Func returns the name of a function, such as main.(*call).fail-fm for a method value, or "" if it has none.
func Func(f any) string {
	fn := runtime.FuncForPC(reflect.ValueOf(f).Pointer())
	if fn == nil {
		return ""
	}
	return path.Base(fn.Name()) // without the path of its package, like %T
}

// Duration returns a duration, which must not be negative, rounded to three digits.
func Duration(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
