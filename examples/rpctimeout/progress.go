package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const progressEvery = 200 * time.Millisecond

// showProgress shows a line about s on w and updates it, if w is a terminal. The
// function that it returns removes the line.
func showProgress(w io.Writer, s *stats) (stop func()) {
	if !isTerminal(w) {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		width := 0
		for {
			select {
			case <-ticker.C:
			case <-done:
				fmt.Fprintf(w, "\r%s\r", strings.Repeat(" ", width))
				return
			}
			line := fmt.Sprintf("%s sent, %s answered, %s timed out, %s late replies",
				commas(s.sent.Load()), commas(s.answered.Load()), commas(s.timedOut.Load()), commas(s.late.Load()))
			width = max(width, len(line))
			fmt.Fprintf(w, "\r%-*s", width, line)
		}
	}()
	return func() {
		close(done)
		<-ended
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
