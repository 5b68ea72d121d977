package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// showProgress shows a line about the run on w and updates it, if w is a terminal. The function that it returns
// clears the line.
func showProgress(w io.Writer, c *calls, f *fleet) (stop func()) {
	file, ok := w.(*os.File)
	if !ok {
		return func() {}
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func() {}
	}
	var shown sync.WaitGroup
	stopped := make(chan struct{})
	shown.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		const clear = "\r\x1b[K"
		for {
			select {
			case <-ticker.C:
			case <-stopped:
				fmt.Fprint(w, clear)
				return
			}
			issued, ended, attempts := c.tally.counts()
			fmt.Fprintf(w, "%s%s calls, %s attempts, %s calls open; providers published %s times, %s renewals", clear,
				commas(issued), commas(attempts), commas(issued-ended),
				commas(int(f.counts.published.Load())), commas(int(f.counts.renewed.Load())))
		}
	})
	return func() {
		close(stopped)
		shown.Wait()
	}
}
