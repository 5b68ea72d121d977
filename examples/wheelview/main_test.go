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

	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is longer than any test waits, unless something hangs.
const patience = time.Minute

// site builds the page and serves it until the test ends. It returns its address.
func site(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, build(t.Context(), dir))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- serve(ctx, listener, dir) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return "http://" + listener.Addr().String() + "/"
}

func TestBadArguments(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for arg, want := range map[string]string{
		"-nonsense":                      "flag provided but not defined: -nonsense",
		"nonsense":                       `unexpected argument "nonsense"`,
		"-addr=" + taken.Addr().String(): "address already in use",
		"-static=" + file:                file,
	} {
		var out strings.Builder
		require.ErrorContains(t, run(t.Context(), []string{arg}, &out), want)
		require.Empty(t, out.String())
	}
	var exit demo.Exit
	require.ErrorAs(t, run(t.Context(), []string{"-nonsense"}, io.Discard), &exit)
	require.Equal(t, 2, exit.Code)
}

// TestStatic writes the folder that any web server can serve, also over an older one.
func TestStatic(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the library to WebAssembly: runs without -short")
	}
	dir := filepath.Join(t.TempDir(), "new")
	for range 2 {
		var out strings.Builder
		require.NoError(t, run(t.Context(), []string{"-static", dir}, &out))
		require.Equal(t, dir+" has the page: any web server can serve it\n", out.String())
	}
	var names []string
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{"app.js", "dial.js", "icon.svg", "index.html", "main.wasm", "race.html", "race.js",
		"style.css", "wasm.js", "wasm_exec.js"}, names)
	data, err := os.ReadFile(filepath.Join(dir, "main.wasm"))
	require.NoError(t, err)
	require.Equal(t, "\x00asm", string(data[:4]))
}

// TestServe runs the program as a user does, up to Ctrl-C.
func TestServe(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the library to WebAssembly: runs without -short")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"-addr", "127.0.0.1:0"}, in)
		in.CloseWithError(err)
		done <- err
	}()
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), "compiling")
	require.True(t, lines.Scan())
	url, rest, _ := strings.Cut(lines.Text(), " ")
	require.Equal(t, "shows the wheel; press Ctrl-C to end", rest)

	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer client.CloseIdleConnections()
	for name, want := range map[string]string{"": "text/html", "race.html": "text/html", "app.js": "javascript", "main.wasm": "application/wasm"} {
		response, err := client.Get(url + name)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, http.StatusOK, response.StatusCode, name)
		require.Contains(t, response.Header.Get("Content-Type"), want)
	}
	cancel()
	require.NoError(t, <-done)
}
