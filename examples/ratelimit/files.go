package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// followFiles writes files and indexes the changes.
func followFiles(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "ratelimit")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	byThrottle, byDebounce := newIndex(dir), newIndex(dir)
	l, err := newLimiters(o, byThrottle.read, byDebounce.read)
	if err != nil {
		return err
	}
	defer l.timer.Stop()
	ws := &writers{limiters: l, dir: dir, last: make(map[string]sum)}
	endProgress := showProgress(stderr, func() string { return commas(ws.writes.Load()) + " writes" })
	writing, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	began := time.Now()
	err = ws.write(writing)
	elapsed := time.Since(began)
	err = errors.Join(err, l.drain(), byThrottle.err, byDebounce.err)
	endProgress()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s files (every tenth written without long pauses), %s writes in %v, tick %v\n\n",
		commas(int64(o.files)), commas(ws.writes.Load()), elapsed.Round(time.Millisecond), o.tick)
	l.print(stdout)
	return errors.Join(l.check(), byThrottle.check("throttle", ws.last), byDebounce.check("debounce", ws.last))
}

type sum [sha256.Size]byte

// writers are goroutines that write to one file each.
type writers struct {
	*limiters
	dir    string
	writes atomic.Int64

	mu   sync.Mutex
	last map[string]sum // of the last content written, by file
	err  error
}

// write returns when ctx is done, or after the first error of a writer.
func (ws *writers) write(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var writing sync.WaitGroup
	for i := range ws.opts.files {
		writing.Go(func() {
			if err := ws.bursts(ctx, i); err != nil {
				ws.mu.Lock()
				ws.err = errors.Join(ws.err, err)
				ws.mu.Unlock()
				cancel()
			}
		})
	}
	writing.Wait()
	return ws.err
}

// bursts writes to file i again and again. For every tenth file it makes only
// short pauses, so that a debounce without a maximum would not index it until the end.
func (ws *writers) bursts(ctx context.Context, i int) error {
	name := fmt.Sprintf("%04d.txt", i)
	rng := rand.New(rand.NewPCG(ws.opts.seed, uint64(i)))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	for {
		for range 1 + rng.IntN(30) {
			content := make([]byte, 100+rng.IntN(4000))
			for i := range content {
				content[i] = byte('a' + rng.IntN(26))
			}
			if err := os.WriteFile(filepath.Join(ws.dir, name), content, 0o600); err != nil {
				return err
			}
			ws.mu.Lock()
			ws.last[name] = sha256.Sum256(content)
			ws.mu.Unlock()
			ws.writes.Add(1)
			if err := ws.changed(name, ""); err != nil {
				return err
			}
			if ws.timer.Sleep(ctx, upTo(30*time.Millisecond)) != nil {
				return nil
			}
		}
		if i%10 != 0 && ws.timer.Sleep(ctx, upTo(time.Second)) != nil {
			return nil
		}
	}
}

// An index has the checksums of the files as they were when it last read them.
type index struct {
	dir string

	mu    sync.Mutex
	files map[string]*indexed
	err   error // all of them, joined
}

type indexed struct {
	mu  sync.Mutex
	sum sum
}

func newIndex(dir string) *index { return &index{dir: dir, files: make(map[string]*indexed)} }

// read reads a file. If a write is in progress it may see a part of the content.
// The event of that write follows, and causes another read.
func (ix *index) read(name string, _ event) {
	ix.mu.Lock()
	f := ix.files[name]
	if f == nil {
		f = new(indexed)
		ix.files[name] = f
	}
	ix.mu.Unlock()

	// If two calls overlap, the sum of the later read remains.
	f.mu.Lock()
	defer f.mu.Unlock()
	content, err := os.ReadFile(filepath.Join(ix.dir, name))
	if err != nil {
		ix.mu.Lock()
		ix.err = errors.Join(ix.err, err)
		ix.mu.Unlock()
		return
	}
	f.sum = sha256.Sum256(content)
}

// check returns an error if the index does not have the last content of each
// file. No read may be in progress.
func (ix *index) check(name string, last map[string]sum) error {
	wrong := 0
	for file, want := range last {
		if f := ix.files[file]; f == nil || f.sum != want {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%s: the index has old content for %d of %d files", name, wrong, len(last))
	}
	return nil
}
