//go:build unix

package main

import (
	"bytes"
	"encoding/hex"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/png"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPicture writes the moving picture of the README to the file WHEELVIEW_PICTURE, if that is set.
func TestPicture(t *testing.T) {
	file := os.Getenv("WHEELVIEW_PICTURE")
	if file == "" {
		t.Skip("WHEELVIEW_PICTURE is not set")
	}
	b := startBrowser(t)
	b.look(920, 580, "light", "no-preference")
	b.cdp("Emulation.setDeviceMetricsOverride", // a smaller picture of the same page
		map[string]any{"width": 920, "height": 580, "deviceScaleFactor": 0.6, "mobile": false})
	b.open(site(t))
	script[any](b, `document.head.append(Object.assign(document.createElement("style"),
		{ textContent: "form, li:not(.now) p { display: none !important }" }))`)
	var pictures []image.Image
	var delays []int // in hundredths of a second
	for start := time.Now(); time.Since(start) < 12*time.Second; {
		from, every := time.Now(), 240*time.Millisecond
		if time.Since(start) > 8*time.Second {
			every = 2 * time.Second // the pictures of the flood are large
		}
		picture, err := png.Decode(bytes.NewReader(b.shot()))
		require.NoError(t, err)
		time.Sleep(time.Until(from.Add(every)))
		pictures, delays = append(pictures, picture), append(delays, int(time.Since(from).Milliseconds()/10))
	}
	delays[len(delays)-1] = 250
	moving := &gif.GIF{Delay: delays}
	bounds, colors := pictures[0].Bounds(), palette(t)
	before := image.NewPaletted(bounds, colors)
	for _, picture := range pictures {
		now := image.NewPaletted(bounds, colors)
		draw.Draw(now, bounds, picture, bounds.Min, draw.Src)
		changes := image.NewPaletted(bounds, colors) // transparent where nothing changes, which keeps the file small
		var changed image.Rectangle
		for i, c := range now.Pix {
			if c != before.Pix[i] {
				changes.Pix[i] = c
				changed = changed.Union(image.Rect(0, 0, 1, 1).Add(image.Pt(i%now.Stride, i/now.Stride)))
			}
		}
		if changed.Empty() {
			changed = image.Rect(0, 0, 1, 1)
		}
		moving.Image, before = append(moving.Image, changes.SubImage(changed).(*image.Paletted)), now
	}
	var out bytes.Buffer
	require.NoError(t, gif.EncodeAll(&out, moving))
	t.Logf("%d pictures, %d bytes", len(pictures), out.Len())
	require.Less(t, out.Len(), 150_000)
	require.NoError(t, os.WriteFile(file, out.Bytes(), 0o644))
}

// palette returns a transparent color, and the light colors of style.css, also faint on the color of the buckets.
func palette(t *testing.T) color.Palette {
	css, err := files.ReadFile("page/style.css")
	require.NoError(t, err)
	colors := color.Palette{color.RGBA{}}
	for _, m := range regexp.MustCompile(`--\w+: #(\w{6});`).FindAllSubmatch(css, 14) {
		c, err := hex.DecodeString(string(m[1]))
		require.NoError(t, err)
		for n := range 4 {
			mix := func(i, other int) uint8 { return uint8((int(c[i])*(4-n) + other*n) / 4) }
			colors = append(colors, color.RGBA{mix(0, 0xe9), mix(1, 0xed), mix(2, 0xf2), 0xff})
		}
	}
	return colors
}
