// The drawing of the wheel: a ring for each level, the first one innermost, and in it a cell for each
// bucket, clockwise from the top.

import { colors, fit, onTheme, shades } from "./colors.js";
import { count, time, timeouts } from "./format.js";

const turn = 2 * Math.PI;
const still = matchMedia("(prefers-reduced-motion: reduce)");
const holes = [0, 0.6, 0.46, 0.36]; // of the radius, by the number of levels

// ticksPer is how many ticks a bucket of a level is for: half a turn of the level below is one.
const ticksPer = (level, size) => (size / 2) ** level;

export class Wheel {
  constructor({ canvas, legend, legendTop, readout, rings }) {
    Object.assign(this, { canvas, legend, legendTop, readout, rings });
    this.top = 1; // timeouts in a cell of the last color
    this.trail = []; // where the first hand has been
    this.pointer = null;
    canvas.addEventListener("pointermove", (e) => this.point(e));
    canvas.addEventListener("pointerdown", (e) => this.point(e));
    canvas.addEventListener("pointerleave", () => (this.pointer = null));
    new ResizeObserver(() => this.draw()).observe(canvas);
    onTheme(() => {
      this.draw();
      this.drawLegend();
    });
  }

  show(snapshot) {
    const fresh = this.snapshot?.timer !== snapshot.timer;
    this.snapshot = snapshot;
    if (fresh) this.trail = [];
    this.trail.push({ hand: snapshot.levels[0]?.hand, ticks: snapshot.ticks });
    if (this.trail.length > 6) this.trail.shift();

    // The scale rises at once and comes down slowly, so that colors do not flicker.
    let most = 1;
    for (const l of snapshot.levels) for (const n of l.buckets) most = Math.max(most, n);
    this.top = fresh ? most : Math.max(most, this.top * 0.98);
    this.draw();
  }

  // rings places the levels: from which radius to which.
  ring(level) {
    const n = this.snapshot.wheel.levels;
    const radius = this.canvas.clientWidth / 2 - 6;
    const gap = n > 1 ? radius * 0.045 : 0;
    const hole = radius * holes[n];
    const width = (radius - hole - gap * (n - 1)) / n;
    const from = hole + level * (width + gap);
    return [from, from + width];
  }

  shade(n) {
    return Math.min(shades - 1, Math.floor((Math.log1p(n - 1) / Math.log1p(this.top)) * shades));
  }

  draw() {
    if (!this.snapshot || !this.canvas.clientWidth) return;
    const g = fit(this.canvas);
    const middle = this.canvas.clientWidth / 2;
    g.translate(middle, middle);
    for (let level = 0; level < this.snapshot.wheel.levels; level++) this.drawRing(g, level);
    this.drawMiddle(g);
  }

  drawRing(g, level) {
    const { wheel, levels } = this.snapshot;
    const [inner, outer] = this.ring(level);
    const view = levels[level];
    const step = turn / wheel.size;
    // Where cells are too narrow for a gap they overlap, or else the background would shine through.
    const gap = step * inner < 4 ? -0.6 / outer : Math.min(step * 0.14, 1.2 / inner);
    const start = -turn / 4;
    const cell = (slot, from, to) => {
      const a = start + slot * step + gap / 2;
      const b = start + (slot + 1) * step - gap / 2;
      g.moveTo(to * Math.cos(a), to * Math.sin(a));
      g.arc(0, 0, to, a, b);
      g.arc(0, 0, from, b, a, true);
      g.closePath();
    };

    // One path for each color, not one for each cell.
    const paths = Array.from({ length: shades + 1 }, () => []);
    for (let slot = 0; slot < wheel.size; slot++) {
      const n = view?.buckets[slot] ?? 0;
      paths[n > 0 ? 1 + this.shade(n) : 0].push(slot);
    }
    paths.forEach((slots, i) => {
      if (slots.length === 0) return;
      g.beginPath();
      for (const slot of slots) cell(slot, inner, outer);
      g.fillStyle = i === 0 ? colors.empty : colors.ramp[i - 1];
      g.fill();
    });

    if (level === 0) this.drawPresent(g, inner, step, start);
    if (!view) return;
    const at = start + (view.hand + 0.5) * step;
    g.save();
    g.rotate(at);
    g.strokeStyle = colors.card;
    g.lineWidth = 6;
    line(g, inner - 3, outer + 3);
    g.strokeStyle = colors.hand;
    g.lineWidth = 3;
    line(g, inner - 4, outer + 4);
    g.restore();
  }

  // drawPresent marks the tick that it is now, and where the hand has been in the last moments.
  drawPresent(g, inner, step, start) {
    const { wheel, ticks, levels } = this.snapshot;
    const radius = inner - 8;
    const old = this.trail[0];
    if (!still.matches && levels.length > 0 && old.hand !== undefined) {
      const ahead = ticks - old.ticks;
      const moved = (levels[0].hand - old.hand + wheel.size) % wheel.size;
      const cells = ahead >= wheel.size ? wheel.size : moved;
      const end = start + (levels[0].hand + 0.5) * step;
      const parts = 12;
      g.strokeStyle = colors.hand;
      g.lineWidth = 3;
      for (let i = 0; i < parts; i++) {
        g.globalAlpha = 0.6 * (1 - i / parts);
        g.beginPath();
        g.arc(0, 0, radius, end - (cells * step * (i + 1)) / parts, end - (cells * step * i) / parts);
        g.stroke();
      }
      g.globalAlpha = 1;
    }
    const now = start + ((ticks % wheel.size) + 0.5) * step;
    g.beginPath();
    g.arc(radius * Math.cos(now), radius * Math.sin(now), 4, 0, turn);
    g.fillStyle = colors.hand;
    g.fill();
  }

  drawMiddle(g) {
    const { pending, queued, levels } = this.snapshot;
    const hole = this.ring(0)[0];
    g.textAlign = "center";
    g.textBaseline = "middle";
    const write = (text, y, size, weight, color) => {
      g.font = `${weight} ${Math.max(10, hole * size)}px system-ui, sans-serif`;
      g.fillStyle = color;
      g.fillText(text, 0, hole * y, hole * 1.55);
    };
    write(count(pending), -0.16, 0.4, 650, colors.ink);
    write("pending", 0.16, 0.17, 400, colors.soft);
    const below = levels.length === 0 ? "no goroutine" : queued > 0 ? `${count(queued)} queued` : "";
    write(below, 0.42, 0.15, 400, colors.soft);
  }

  // describe writes what can be read beside the drawing.
  describe() {
    const { wheel, levels } = this.snapshot;
    this.drawLegend();
    this.legendTop.textContent = `${timeouts(Math.round(this.top))}`;
    while (this.rings.rows.length > wheel.levels) this.rings.deleteRow(-1);
    for (let level = 0; level < wheel.levels; level++) {
      const row = this.rings.rows[level] ?? this.addRow(level);
      const view = levels[level];
      const each = ticksPer(level, wheel.size) * wheel.tickMs;
      const cells = [time(each), time(each * wheel.size), `${count(view?.occupied ?? 0)}/${wheel.size}`, count(view?.timeouts ?? 0)];
      cells.forEach((text, i) => (row.cells[i + 1].textContent = text));
    }
    if (this.pointer) this.readout.textContent = this.read(this.pointer);
  }

  addRow(level) {
    const row = this.rings.insertRow();
    row.innerHTML = "<th scope=row></th><td></td><td></td><td></td><td></td>";
    row.cells[0].textContent = level + 1;
    return row;
  }

  drawLegend() {
    const g = fit(this.legend);
    const width = this.legend.clientWidth / (shades + 1);
    [colors.empty, ...colors.ramp].forEach((color, i) => {
      g.fillStyle = color;
      g.fillRect(i * width, 0, width + 1, this.legend.clientHeight);
    });
  }

  point(e) {
    const box = this.canvas.getBoundingClientRect();
    const x = e.clientX - box.left - box.width / 2;
    const y = e.clientY - box.top - box.height / 2;
    this.pointer = { radius: Math.hypot(x, y), angle: (Math.atan2(y, x) + turn * 1.25) % turn };
    if (this.snapshot) this.readout.textContent = this.read(this.pointer);
  }

  read({ radius, angle }) {
    const { wheel, levels } = this.snapshot;
    for (let level = 0; level < wheel.levels; level++) {
      const [inner, outer] = this.ring(level);
      if (radius < inner || radius > outer) continue;
      const slot = Math.min(wheel.size - 1, Math.floor((angle / turn) * wheel.size));
      const view = levels[level];
      if (!view) return `Ring ${level + 1}, bucket ${slot}: empty. Nothing has got to this ring.`;
      const blocks = (slot - view.hand + wheel.size) % wheel.size;
      const reached = blocks === 0 ? "the hand is here" : `the hand gets here in about ${time(blocks * ticksPer(level, wheel.size) * wheel.tickMs)}`;
      return `Ring ${level + 1}, bucket ${slot}: ${timeouts(view.buckets[slot] ?? 0)}, ${reached}.`;
    }
    return "Point at a bucket to see what is in it.";
  }
}

function line(g, from, to) {
  g.lineCap = "round";
  g.beginPath();
  g.moveTo(from, 0);
  g.lineTo(to, 0);
  g.stroke();
}
