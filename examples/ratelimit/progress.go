package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const progressEvery = 200 * time.Millisecond

// showProgress shows a line on w and updates it, if w is a terminal. The function
// that it returns removes the line.
func showProgress(w io.Writer, line func() string) (end func()) {
	if !isTerminal(w) {
		return func() {}
	}
	ticker := time.NewTicker(progressEvery)
	done := make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		for width := 0; ; {
			select {
			case <-ticker.C:
				text := line()
				width = max(width, len(text))
				fmt.Fprintf(w, "\r%-*s", width, text)
			case <-done:
				fmt.Fprintf(w, "\r%s\r", strings.Repeat(" ", width))
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(done)
		showing.Wait()
	}
}

// isTerminal reports whether w is a character device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
