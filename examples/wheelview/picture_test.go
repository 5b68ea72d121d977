//go:build unix

package main

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"maps"
	"math"
	"os"
	"slices"
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
	b.open(site(t), look{960, 600, "light", false})
	script[any](b, `document.head.append(Object.assign(document.createElement("style"),
		{ textContent: "form, li:not(.now) p { display: none !important }" }))`)
	var pictures []image.Image
	var times []time.Time
	every := 80 * time.Millisecond
	for start := time.Now(); time.Since(start) < 16*time.Second; {
		picture, err := png.Decode(bytes.NewReader(b.shot()))
		require.NoError(t, err)
		pictures, times = append(pictures, picture), append(times, time.Now())
		if time.Since(start) > 11*time.Second {
			every = 240 * time.Millisecond // the pictures of the flood are large
		}
		time.Sleep(time.Until(times[len(times)-1].Add(every)))
	}
	var out bytes.Buffer
	require.NoError(t, gif.EncodeAll(&out, animate(pictures, times)))
	t.Logf("%d frames, %d bytes", len(pictures), out.Len())
	require.Less(t, out.Len(), 1_000_000)
	require.NoError(t, os.WriteFile(file, out.Bytes(), 0o644))
}

// animate makes one picture that moves. Pixels that do not change are transparent, which keeps it small.
func animate(pictures []image.Image, times []time.Time) *gif.GIF {
	colors := palette(pictures)
	index := map[color.Color]uint8{}
	whole := pictures[0].Bounds()
	before := image.NewPaletted(whole, colors)
	g := &gif.GIF{}
	for i, picture := range pictures {
		now, changes := image.NewPaletted(whole, colors), image.NewPaletted(whole, colors)
		var changed image.Rectangle
		for y := range whole.Dy() {
			for x := range whole.Dx() {
				c := picture.At(x, y)
				n, known := index[c]
				if !known {
					n = uint8(colors[1:].Index(c) + 1)
					index[c] = n
				}
				now.SetColorIndex(x, y, n)
				if n != before.ColorIndexAt(x, y) {
					changes.SetColorIndex(x, y, n)
					changed = changed.Union(image.Rect(x, y, x+1, y+1))
				}
			}
		}
		delay := 200 // hundredths of a second: the last picture stays longer
		if i+1 < len(times) {
			delay = int(times[i+1].Sub(times[0])/(10*time.Millisecond) - times[i].Sub(times[0])/(10*time.Millisecond))
		}
		if changed.Empty() {
			changed = image.Rect(0, 0, 1, 1)
		}
		g.Image = append(g.Image, changes.SubImage(changed).(*image.Paletted))
		g.Delay = append(g.Delay, delay)
		before = now
	}
	return g
}

// palette returns a transparent color, and the most frequent colors that differ.
func palette(pictures []image.Image) color.Palette {
	counts := map[color.RGBA]int{}
	for i := 0; i < len(pictures); i += 10 {
		bounds := pictures[i].Bounds()
		for y := range bounds.Dy() {
			for x := range bounds.Dx() {
				counts[color.RGBAModel.Convert(pictures[i].At(x, y)).(color.RGBA)]++
			}
		}
	}
	colors := color.Palette{color.RGBA{}}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return cmp.Compare(counts[b], counts[a]) })
	for _, c := range frequent {
		near := colors.Convert(c).(color.RGBA)
		distance := math.Hypot(math.Hypot(float64(c.R)-float64(near.R), float64(c.G)-float64(near.G)), float64(c.B)-float64(near.B))
		if len(colors) < 128 && distance > 8 {
			colors = append(colors, c)
		}
	}
	return colors
}
