//go:build unix

package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

// look sets size and theme of the page.
func (b *browser) look(width, height int, theme string) {
	b.t.Helper()
	b.cdp("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
	b.media("prefers-color-scheme", theme)
}

func (b *browser) media(feature, value string) {
	b.t.Helper()
	b.cdp("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": feature, "value": value}}})
}

// shot saves a picture of the whole page in the directory WHEELVIEW_SHOTS, if that is set.
func (b *browser) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("WHEELVIEW_SHOTS")
	if dir == "" {
		return
	}
	require.NoError(b.t, os.MkdirAll(dir, 0o755))
	size := script[[]int](b, "return [innerWidth, document.documentElement.scrollHeight]")
	result := b.cdp("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}})
	data, err := base64.StdEncoding.DecodeString(fmt.Sprint(result["data"]))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644))
}

// touch makes the browser behave like that of a device with a touch screen and no mouse.
func (b *browser) touch(width, height int, theme string) {
	b.t.Helper()
	b.cdp("Emulation.setTouchEmulationEnabled", map[string]any{"enabled": true, "maxTouchPoints": 1})
	b.look(width, height, theme)
}

// pointAt moves a mouse or a finger ("touch") to the point (x, y), in pixels from the middle of the wheel.
// A finger touches there and is lifted.
func (b *browser) pointAt(kind string, x, y int) {
	b.t.Helper()
	script[any](b, "document.getElementById('wheel').scrollIntoView({block: 'center', behavior: 'instant'})")
	actions := []any{map[string]any{"type": "pointerMove", "duration": 0, "x": x, "y": y,
		"origin": map[string]string{elementKey: strings.TrimPrefix(b.element("#wheel"), "/element/")}}}
	if kind == "touch" {
		actions = append(actions, map[string]any{"type": "pointerDown", "button": 0}, map[string]any{"type": "pointerUp", "button": 0})
	}
	b.command("POST", "/actions", map[string]any{"actions": []any{map[string]any{
		"type": "pointer", "id": kind, "parameters": map[string]string{"pointerType": kind}, "actions": actions,
	}}}, nil)
}

// elementKey is how WebDriver names a reference to an element.
const elementKey = "element-6066-11e4-a52e-4f735466cecf"

// shown returns the text of an element as a reader sees it.
func (b *browser) shown(css string) string {
	b.t.Helper()
	return script[string](b, "return document.querySelector(arguments[0]).innerText.replace(/\\s+/g, ' ').trim()", css)
}
