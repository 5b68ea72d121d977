//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A browser is a headless Chromium, driven over WebDriver by chromedriver.
type browser struct {
	t       *testing.T
	client  *http.Client
	session string // its URL
}

// startBrowser starts a browser that runs until the test ends. It skips the test unless WHEELVIEW_BROWSER is 1.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	if os.Getenv("WHEELVIEW_BROWSER") != "1" {
		t.Skip("runs with WHEELVIEW_BROWSER=1")
	}
	cmd := exec.Command("chromedriver", "--port=0")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start(), "apt-get install chromium chromium-driver")
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	var port []string
	for lines := bufio.NewScanner(stdout); port == nil && lines.Scan(); {
		port = regexp.MustCompile(`started successfully on port (\d+)`).FindStringSubmatch(lines.Text())
	}
	require.NotNil(t, port, "chromedriver does not say on which port it listens")
	go io.Copy(io.Discard, stdout)

	profile, err := os.MkdirTemp("", "wheelview")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(profile) }) // files that the browser still has open stay
	b := &browser{t: t, client: &http.Client{Timeout: patience}, session: "http://127.0.0.1:" + port[1] + "/session"}
	t.Cleanup(b.client.CloseIdleConnections)
	var created struct{ SessionID string }
	b.command("POST", "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"goog:loggingPrefs": map[string]string{"browser": "ALL"},
		"goog:chromeOptions": map[string]any{"args": []string{"--headless", "--no-sandbox", "--disable-gpu",
			"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
			"--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir=" + profile}},
	}}}, &created)
	b.session += "/" + created.SessionID
	t.Cleanup(func() { b.command("DELETE", "", struct{}{}, nil) })
	return b
}

// command sends a WebDriver command and decodes the value of the answer.
func (b *browser) command(method, path string, body, value any) {
	data, err := json.Marshal(body)
	require.NoError(b.t, err)
	r, err := http.NewRequest(method, b.session+path, bytes.NewReader(data))
	require.NoError(b.t, err)
	response, err := b.client.Do(r)
	require.NoError(b.t, err)
	defer response.Body.Close()
	data, err = io.ReadAll(response.Body)
	require.NoError(b.t, err)
	require.Equal(b.t, http.StatusOK, response.StatusCode, "%s %s: %s", method, path, data)
	if value != nil {
		require.NoError(b.t, json.Unmarshal(data, &struct{ Value any }{value}), string(data))
	}
}

// cdp sends a command of the Chrome DevTools Protocol.
func (b *browser) cdp(cmd string, params map[string]any) {
	b.command("POST", "/goog/cdp/execute", map[string]any{"cmd": cmd, "params": params}, nil)
}

// look sets the size of the window, and what the user prefers: light or dark, and reduce or no-preference.
func (b *browser) look(width, height int, scheme, motion string) {
	b.cdp("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
	b.cdp("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}}})
}

func (b *browser) open(url string) {
	b.command("POST", "/url", map[string]string{"url": url}, nil)
}

// script runs a function body in the page, and decodes what it returns.
func script[T any](b *browser, body string, args ...any) (value T) {
	b.command("POST", "/execute/sync", map[string]any{"script": body, "args": append([]any{}, args...)}, &value)
	return value
}

// text returns the text of an element.
func (b *browser) text(id string) string {
	return script[string](b, "return document.getElementById(arguments[0]).textContent.trim()", id)
}

// number returns the number that an element shows, or 0 if it shows none.
func (b *browser) number(id string) float64 {
	return script[float64](b, "return parseFloat(arguments[0].replaceAll(',', '')) || 0", b.text(id))
}

// eventually waits until a condition holds. The limit is long, because the machine may be loaded.
func (b *browser) eventually(what string, holds func() bool) {
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.save("failed")
			require.FailNow(b.t, "not within "+patience.String()+": "+what)
		}
	}
}

// shot returns a picture of the window, as a PNG file.
func (b *browser) shot() []byte {
	var encoded string
	b.command("GET", "/screenshot", struct{}{}, &encoded)
	data, err := base64.StdEncoding.DecodeString(encoded)
	require.NoError(b.t, err)
	return data
}

// save saves a picture of the window in the folder WHEELVIEW_SHOTS, if that is set.
func (b *browser) save(name string) {
	if dir := os.Getenv("WHEELVIEW_SHOTS"); dir != "" {
		require.NoError(b.t, os.MkdirAll(dir, 0o755))
		require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), b.shot(), 0o644))
	}
}

// console returns the errors on the console since the last call.
func (b *browser) console() (errors []string) {
	var entries []struct{ Level, Message string }
	b.command("POST", "/se/log", map[string]string{"type": "browser"}, &entries)
	for _, e := range entries {
		if e.Level == "SEVERE" {
			errors = append(errors, e.Message)
		}
	}
	return errors
}
