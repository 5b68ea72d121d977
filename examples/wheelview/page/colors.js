// The colors of the drawings. They come from the style sheet, and change with the theme.

const listeners = [];
const dark = matchMedia("(prefers-color-scheme: dark)");

export const shades = 16;
export let colors = read();

dark.addEventListener("change", () => {
  colors = read();
  for (const f of listeners) f();
});

export function onTheme(f) {
  listeners.push(f);
}

function read() {
  const style = getComputedStyle(document.documentElement);
  const c = {};
  for (const name of ["card", "line", "ink", "soft", "empty", "low", "mid", "high", "hand", "scheduled", "expired", "canceled", "other"]) {
    c[name] = style.getPropertyValue(`--${name}`).trim();
  }
  c.ramp = [];
  for (let i = 0; i < shades; i++) {
    const x = (2 * i) / (shades - 1);
    c.ramp.push(x < 1 ? mix(c.low, c.mid, x) : mix(c.mid, c.high, x - 1));
  }
  return c;
}

function mix(a, b, x) {
  const part = (s, i) => parseInt(s.slice(1 + 2 * i, 3 + 2 * i), 16);
  return `rgb(${[0, 1, 2].map((i) => Math.round(part(a, i) * (1 - x) + part(b, i) * x)).join(" ")})`;
}

// fit gives a canvas as many pixels as it covers, and returns its context, in CSS pixels.
export function fit(canvas) {
  const ratio = devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * ratio);
  const height = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  return g;
}
