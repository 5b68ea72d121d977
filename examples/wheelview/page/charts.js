// The small charts: the last seconds of a number, and the histogram of the lateness.

import { colors, fit, onTheme } from "./colors.js";
import { time } from "./format.js";

const kept = 150; // values: 10 seconds

// A Spark is a number with a line of its last seconds.
export class Spark {
  constructor(list, { name, note, color, write }) {
    this.write = write;
    this.color = color;
    this.values = [];
    const box = document.createElement("div");
    const term = document.createElement("dt");
    term.textContent = name;
    this.value = document.createElement("dd");
    this.value.className = "value";
    const drawing = document.createElement("dd");
    drawing.className = "line";
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    drawing.append(this.canvas);
    const text = document.createElement("dd");
    text.className = "note";
    text.textContent = note;
    box.append(term, this.value, drawing, text);
    list.append(box);
    onTheme(() => this.draw());
  }

  add(value) {
    this.last = value;
    this.values.push(value);
    if (this.values.length > kept) this.values.shift();
  }

  draw() {
    if (this.last === undefined) return;
    this.value.textContent = this.write(this.last);
    const g = fit(this.canvas);
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const top = Math.max(1, ...this.values) * 1.05;
    const x = (i) => width - ((this.values.length - 1 - i) * width) / (kept - 1);
    const y = (v) => height - 1.5 - (v / top) * (height - 4);
    g.beginPath();
    this.values.forEach((v, i) => g.lineTo(x(i), y(v)));
    g.strokeStyle = colors[this.color];
    g.lineWidth = 1.5;
    g.lineJoin = "round";
    g.stroke();
    g.lineTo(width, height);
    g.lineTo(x(0), height);
    g.globalAlpha = 0.16;
    g.fillStyle = colors[this.color];
    g.fill();
    g.globalAlpha = 1;
  }
}

// A Histogram has a bar for each octave of the lateness. The bounds of the library's classes are
// multiples of 1,024 ns, so four classes make one bar, or fewer at the start.
const unit = 1.024; // microseconds

export class Histogram {
  constructor(canvas) {
    this.canvas = canvas;
    new ResizeObserver(() => this.draw()).observe(canvas);
    onTheme(() => this.draw());
  }

  show(lateness, tickMs) {
    this.tick = tickMs * 1000;
    this.bars = new Map();
    for (const { upTo, n } of lateness.classes) {
      const bar = Math.max(0, Math.ceil(Math.log2(upTo / unit) - 0.01));
      this.bars.set(bar, (this.bars.get(bar) ?? 0) + n);
    }
    this.draw();
  }

  draw() {
    if (!this.bars || !this.canvas.clientWidth) return;
    const g = fit(this.canvas);
    const width = this.canvas.clientWidth;
    const foot = this.canvas.clientHeight - 22;
    const head = 20; // for the names of the lines
    const bar = (micros) => 1 + Math.log2(micros / unit); // the end of the bar for this lateness, counted in bars
    // The name of the second line needs 70 pixels to its right.
    const bars = Math.max(16, Math.ceil(bar(2 * this.tick) / (1 - 70 / width)), 1 + Math.max(0, ...this.bars.keys()));
    const each = width / bars;
    const x = (micros) => bar(micros) * each;
    const most = Math.max(1, ...this.bars.values());

    g.fillStyle = colors.mid;
    for (const [i, n] of this.bars) {
      const tall = Math.max(2, (n / most) * (foot - head));
      g.beginPath();
      g.roundRect((i + 0.06) * each, foot - tall, each * 0.88, tall, [3, 3, 0, 0]);
      g.fill();
    }

    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "top";
    g.textAlign = "center";
    g.fillStyle = colors.soft;
    g.strokeStyle = colors.other;
    g.beginPath();
    g.moveTo(0, foot + 0.5);
    g.lineTo(width, foot + 0.5);
    for (let micros = 1; x(micros) < width - 22; micros *= 10) {
      g.moveTo(x(micros), foot);
      g.lineTo(x(micros), foot + 4);
      g.fillText(time(micros / 1000), x(micros), foot + 7);
    }
    g.stroke();

    g.strokeStyle = colors.hand;
    g.lineWidth = 1;
    for (const [name, ticks, side, beside] of [["one tick", 1, "right", -6], ["two ticks", 2, "left", 6]]) {
      const at = Math.floor(x(ticks * this.tick)) + 0.5;
      g.setLineDash([4, 3]);
      g.beginPath();
      g.moveTo(at, 0);
      g.lineTo(at, foot);
      g.stroke();
      g.setLineDash([]);
      g.textAlign = side;
      g.fillText(name, at + beside, 0);
    }
  }
}
