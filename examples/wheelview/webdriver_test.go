//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A browser is a headless Chromium, driven over WebDriver by chromedriver.
type browser struct {
	t       testing.TB
	client  *http.Client
	session string // its URL
}

// startBrowser starts a browser that runs until the test ends, or skips the test: see findBrowser.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	chromium, driver := findBrowser(t)
	cmd := exec.Command(driver, "--port=0")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	var port string
	lines := bufio.NewScanner(stdout)
	for started := regexp.MustCompile(`started successfully on port (\d+)`); lines.Scan(); {
		if m := started.FindStringSubmatch(lines.Text()); m != nil {
			port = m[1]
			break
		}
	}
	require.NotEmpty(t, port, "chromedriver does not say on which port it listens")
	go io.Copy(io.Discard, stdout)

	profile, err := os.MkdirTemp("", "wheelview")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(profile) }) // files that the browser still has open stay
	b := &browser{t: t, client: &http.Client{Timeout: time.Minute}, session: "http://127.0.0.1:" + port + "/session"}
	t.Cleanup(b.client.CloseIdleConnections)
	var created struct {
		SessionID string `json:"sessionId"`
	}
	b.command("POST", "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"goog:loggingPrefs": map[string]string{"browser": "ALL"},
		"goog:chromeOptions": map[string]any{
			"binary": chromium,
			"args": []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
				"--disable-background-networking", "--disable-component-update", "--disable-sync",
				"--disable-dev-shm-usage", "--user-data-dir=" + profile},
		},
	}}}, &created)
	b.session += "/" + created.SessionID
	t.Cleanup(func() { b.command("DELETE", "", nil, nil) })
	return b
}

// command sends a WebDriver command and decodes the value of the answer.
func (b *browser) command(method, path string, body, value any) {
	b.t.Helper()
	if body == nil {
		body = struct{}{}
	}
	data, err := json.Marshal(body)
	require.NoError(b.t, err)
	if method != "POST" {
		data = nil
	}
	r, err := http.NewRequest(method, b.session+path, bytes.NewReader(data))
	require.NoError(b.t, err)
	response, err := b.client.Do(r)
	require.NoError(b.t, err)
	defer response.Body.Close()
	data, err = io.ReadAll(response.Body)
	require.NoError(b.t, err)
	require.Equal(b.t, http.StatusOK, response.StatusCode, "%s %s: %s", method, path, data)
	if value != nil {
		require.NoError(b.t, json.Unmarshal(data, &struct {
			Value any `json:"value"`
		}{value}), string(data))
	}
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.command("POST", "/url", map[string]string{"url": url}, nil)
}

// cdp sends a command of the Chrome DevTools Protocol.
func (b *browser) cdp(cmd string, params map[string]any) (result map[string]any) {
	b.t.Helper()
	b.command("POST", "/goog/cdp/execute", map[string]any{"cmd": cmd, "params": params}, &result)
	return result
}

// script runs a function body in the page, and decodes what it returns.
func script[T any](b *browser, body string, args ...any) (value T) {
	b.t.Helper()
	if args == nil {
		args = []any{}
	}
	b.command("POST", "/execute/sync", map[string]any{"script": body, "args": args}, &value)
	return value
}

// text returns the text of an element.
func (b *browser) text(id string) string {
	b.t.Helper()
	return script[string](b, "return document.getElementById(arguments[0]).textContent", id)
}

// number returns the number that an element shows.
func (b *browser) number(id string) (n float64) {
	b.t.Helper()
	return script[float64](b, "return Number(document.getElementById(arguments[0]).textContent.replaceAll(',', ''))", id)
}

// eventually waits until a condition holds. The limit is long, because the machine may be loaded.
func (b *browser) eventually(what string, holds func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(far); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.shot("failed")
			require.FailNow(b.t, "not so in "+far.String()+": "+what)
		}
	}
}

// element returns the path of an element's commands.
func (b *browser) element(css string) string {
	b.t.Helper()
	var found map[string]string
	b.command("POST", "/element", map[string]string{"using": "css selector", "value": css}, &found)
	for _, id := range found {
		return "/element/" + id
	}
	require.FailNow(b.t, "no element "+css)
	return ""
}

func (b *browser) click(css string) {
	b.t.Helper()
	b.command("POST", b.element(css)+"/click", nil, nil)
}

// keys types into an element. If clear is true, it first clears the text of the element.
func (b *browser) keys(css, text string, clear bool) {
	b.t.Helper()
	e := b.element(css)
	if clear {
		b.command("POST", e+"/clear", nil, nil)
	}
	b.command("POST", e+"/value", map[string]string{"text": text}, nil)
}

// Keys by the code points that WebDriver has for them.
const (
	keyTab   = "\uE004"
	keyLeft  = "\uE012"
	keyRight = "\uE014"
	keyEnter = "\uE007"
)

// press presses a key, wherever the focus is.
func (b *browser) press(key string) {
	b.t.Helper()
	b.command("POST", "/actions", map[string]any{"actions": []any{map[string]any{
		"type": "key", "id": "keyboard", "actions": []any{
			map[string]string{"type": "keyDown", "value": key}, map[string]string{"type": "keyUp", "value": key},
		}}}}, nil)
}

// console returns the errors and warnings that have been written on the console since the last call. It
// leaves out warnings that the tests read pixels.
func (b *browser) console() (errors []string) {
	b.t.Helper()
	var entries []struct{ Level, Message string }
	b.command("POST", "/se/log", map[string]string{"type": "browser"}, &entries)
	for _, e := range entries {
		if (e.Level == "SEVERE" || e.Level == "WARNING") && !strings.Contains(e.Message, "willReadFrequently") {
			errors = append(errors, e.Level+" "+e.Message)
		}
	}
	return errors
}
