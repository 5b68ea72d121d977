// Package logtext makes short texts for logs.
package logtext

import (
	"bytes"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Stack returns a stack of debug.Stack as one line: the functions from the one that panicked to the task, such as
// main.charge (main.go:41). The line ends before the first function whose name, as Symbol returns it, begins with one of
// callers, or with the stack. Stack returns what it is given if there is no such line.
func Stack(stack []byte, callers ...string) string {
	from := bytes.Index(stack, []byte("\npanic("))
	if from < 0 {
		return string(stack)
	}
	var calls []string
	function := ""
	for line := range strings.SplitSeq(string(stack[from+1:]), "\n") {
		place, isPlace := strings.CutPrefix(line, "\t")
		if !isPlace {
			if function = line[:max(strings.LastIndexByte(line, '('), 0)]; hasPrefix(function, callers) || strings.HasPrefix(line, "created by ") {
				break
			}
		} else if function != "panic" && !ofRuntime(function) {
			place, _, _ = strings.Cut(path.Base(place), " +0x")
			calls = append(calls, function+" ("+place+")")
		}
	}
	if len(calls) == 0 {
		return string(stack)
	}
	return strings.Join(calls, ", ")
}

func hasPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(s, prefix) })
}

// ofRuntime reports whether a function is of package runtime, and not of a package such as runtime.example/x.
func ofRuntime(symbol string) bool {
	return strings.HasPrefix(symbol, "runtime.") && !strings.Contains(symbol, "/")
}

// Symbol returns the name of a function with the path of its package, or "" if it has none.
func Symbol(f any) string {
	if fn := runtime.FuncForPC(reflect.ValueOf(f).Pointer()); fn != nil {
		return fn.Name()
	}
	return ""
}

// Func returns the name of a function without the path of its package, like %T, such as main.(*call).fail-fm for a method value.
// It returns "" if the function has none.
func Func(f any) string {
	if symbol := Symbol(f); symbol != "" {
		return path.Base(symbol)
	}
	return ""
}

// Duration returns a duration, which must not be negative, rounded to three digits.
func Duration(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
