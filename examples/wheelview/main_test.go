//go:build !js

package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// patience is longer than any test waits, unless something hangs.
const patience = 3 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site runs the program until the test ends, and returns the address that it prints.
func site(t *testing.T) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"-addr", "127.0.0.1:0"}, in)
		in.CloseWithError(err)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	lines := bufio.NewScanner(out)
	for range 2 {
		require.True(t, lines.Scan())
	}
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/ shows the wheel; press Ctrl-C to end$`, lines.Text())
	url, _, _ = strings.Cut(lines.Text(), " ")
	return url
}

// TestPage writes the folder that any web server can serve, twice, and compares it with what the program serves.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the library to WebAssembly: runs without -short")
	}
	dir := filepath.Join(t.TempDir(), "new")
	for range 2 {
		var out strings.Builder
		require.NoError(t, run(t.Context(), []string{"-static", dir}, &out))
		require.Equal(t, dir+" has the page: any web server can serve it\n", out.String())
	}
	url := site(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	for name, kind := range map[string]string{"index.html": "text/html", "style.css": "text/css",
		"app.js": "javascript", "wasm_exec.js": "javascript", "main.wasm": "application/wasm"} {
		response, err := client.Get(url + strings.TrimPrefix(name, "index.html"))
		require.NoError(t, err)
		served, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		require.Contains(t, response.Header.Get("Content-Type"), kind)
		written, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, string(served) == string(written), name)
	}
}

func TestBadArguments(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for arg, want := range map[string]string{
		"nonsense":                       `unexpected argument "nonsense"`,
		"-addr=" + taken.Addr().String(): taken.Addr().String(),
		"-static=main.go":                "main.go",
	} {
		require.ErrorContains(t, run(t.Context(), []string{arg}, io.Discard), want)
	}
}
