//go:build !js

// Wheelview shows a hashed timing wheel at work, on a web page. The library itself, compiled to WebAssembly, turns
// the wheel in the browser.
//
// Look at wheel.go first: it arms, cancels and watches the timeouts. main_js.go gives its functions to the page. This
// file builds the page into a folder, and serves the folder.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashedwheel/hashedwheel/examples/internal/demo"
)

func main() { demo.Main(run) }

// run writes the page into a folder. Unless the folder was asked for, it serves the page until ctx is canceled.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := demo.Flags("wheelview", "shows a timing wheel at work, in the browser.")
	addr := flags.String("addr", "127.0.0.1:8080", "serve the page on this `address`; port 0 takes any free port")
	static := flags.String("static", "", "write the page into this `folder`, for any web server, and exit")
	if err := demo.Parse(flags, args, out); err != nil {
		return err
	}
	if *static != "" {
		if err := build(ctx, *static); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s has the page: any web server can serve it\n", *static)
		return nil
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	dir, err := os.MkdirTemp("", "wheelview")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(out, "compiling the library to WebAssembly: the first time takes up to a minute")
	if err := build(ctx, dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%v/ shows the wheel; press Ctrl-C to end\n", listener.Addr())
	return serve(ctx, listener, dir)
}

//go:embed page
var files embed.FS

// source is the package that build compiles. The go command finds it in its own folder, inside a clone.
const source = "github.com/hashedwheel/hashedwheel/examples/wheelview"

// build writes the page, main.wasm, and the wasm_exec.js of the same go command into a folder.
func build(ctx context.Context, dir string) error {
	goroot, err := goCommand(ctx, "env", "GOROOT")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(goroot), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "wasm_exec.js"), data, 0o644); err != nil {
		return err
	}
	names, err := fs.Glob(files, "page/*")
	if err != nil {
		return err
	}
	for _, name := range names {
		if data, err = files.ReadFile(name); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, path.Base(name)), data, 0o644); err != nil {
			return err
		}
	}
	_, err = goCommand(ctx, "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "main.wasm"), source)
	return err
}

// goCommand runs the go command for WebAssembly and returns what it prints.
func goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("go %s (start it in examples/wheelview of a clone): %w", args[0], err)
	}
	return string(out), nil
}

// serve serves a folder until ctx is canceled.
func serve(ctx context.Context, listener net.Listener, dir string) error {
	server := &http.Server{Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}
