// The drawing of the wheel: a ring for each level, a cell for each bucket, the hands and the present.

import { colors, fit, onTheme, shades } from "./colors.js";
import { Flights } from "./flights.js";
import { Geometry, turn } from "./geometry.js";
import { Labels } from "./labels.js";
import { Readout } from "./readout.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Wheel {
  constructor({ dial, canvas, flights, labels, outline, hub, readout }) {
    this.dial = dial;
    this.canvas = canvas;
    this.top = 1; // timeouts in a cell of the last color
    this.trail = []; // where the first hand has been
    this.flights = new Flights(flights);
    this.labels = new Labels(labels);
    this.readout = new Readout({ canvas, outline, hub, readout });
    new ResizeObserver(() => this.draw()).observe(canvas);
    onTheme(() => this.draw());
  }

  show(snapshot) {
    const fresh = this.snapshot?.timer !== snapshot.timer;
    const before = fresh ? undefined : this.snapshot;
    this.snapshot = snapshot;
    if (fresh) this.trail = [];
    this.trail.push({ hand: snapshot.levels[0]?.hand, ticks: snapshot.ticks });
    if (this.trail.length > 6) this.trail.shift();

    // The scale rises at once and comes down slowly, so that colors do not flicker.
    let most = 1;
    for (const l of snapshot.levels) for (const n of l.buckets) most = Math.max(most, n);
    this.top = fresh ? most : Math.max(most, this.top * 0.98);
    this.draw();
    if (before) this.flights.start(before, snapshot);
    else this.flights.clear();
  }

  // shade returns the index of the color of a bucket that holds n timeouts. It grows with the logarithm of n.
  shade(n) {
    return Math.min(shades - 1, Math.floor((Math.log(n) / Math.log1p(this.top)) * shades));
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (!this.snapshot || !width) return;
    const { wheel } = this.snapshot;
    const last = this.geometry;
    if (last?.half !== width / 2 || last.levels !== wheel.levels || last.size !== wheel.size) {
      this.geometry = new Geometry(width, wheel);
      this.dial.style.setProperty("--hub", `${this.geometry.hole - 14}px`);
    }
    const g = fit(this.canvas);
    g.translate(width / 2, width / 2);
    for (let level = 0; level < wheel.levels; level++) this.drawRing(g, level);
    this.drawPresent(g);
    for (let level = 0; level < this.snapshot.levels.length; level++) this.drawHand(g, level);
    this.labels.show(this.geometry, wheel.tickMs);
    this.flights.place(this.geometry);
    this.readout.show(this.geometry, this.snapshot);
  }

  drawRing(g, level) {
    const { size, step } = this.geometry;
    const [inner, outer] = this.geometry.ring(level);
    // Cells too narrow for a gap overlap, because otherwise the background would shine through.
    const gap = step * inner < 4 ? -0.6 / outer : Math.min(step * 0.14, 1.2 / inner);
    const cell = (slot) => {
      const a = this.geometry.angle(slot) - (step - gap) / 2;
      const b = a + step - gap;
      g.moveTo(outer * Math.cos(a), outer * Math.sin(a));
      g.arc(0, 0, outer, a, b);
      g.arc(0, 0, inner, b, a, true);
      g.closePath();
    };

    // One path for each color is much cheaper than one for each cell.
    const paths = Array.from({ length: shades + 1 }, () => []);
    for (let slot = 0; slot < size; slot++) {
      const n = this.snapshot.levels[level]?.buckets[slot] ?? 0;
      paths[n > 0 ? 1 + this.shade(n) : 0].push(slot);
    }
    paths.forEach((slots, i) => {
      if (slots.length === 0) return;
      g.beginPath();
      slots.forEach(cell);
      g.fillStyle = i === 0 ? colors.empty : colors.ramp[i - 1];
      g.fill();
    });
  }

  drawHand(g, level) {
    const [inner, outer] = this.geometry.ring(level);
    g.save();
    g.rotate(this.geometry.angle(this.snapshot.levels[level].hand));
    g.lineCap = "round";
    for (const [color, width, beyond] of [[colors.card, 6, 2], [colors.hand, 3, 3]]) {
      g.strokeStyle = color;
      g.lineWidth = width;
      g.beginPath();
      g.moveTo(inner - beyond, 0);
      g.lineTo(outer + beyond, 0);
      g.stroke();
    }
    g.restore();
  }

  // drawPresent marks the current tick, and where the hand has been in the last moments.
  drawPresent(g) {
    const { ticks, levels } = this.snapshot;
    const { size, step } = this.geometry;
    const radius = this.geometry.hole - 8;
    const old = this.trail[0];
    g.fillStyle = g.strokeStyle = colors.hand;
    if (!still.matches && levels.length > 0 && old.hand !== undefined) {
      const moved = (levels[0].hand - old.hand + size) % size;
      const cells = ticks - old.ticks >= size ? size : moved;
      const end = this.geometry.angle(levels[0].hand);
      const parts = 12;
      g.lineWidth = 3;
      for (let i = 0; i < parts; i++) {
        g.globalAlpha = 0.6 * (1 - i / parts);
        g.beginPath();
        g.arc(0, 0, radius, end - (cells * step * (i + 1)) / parts, end - (cells * step * i) / parts);
        g.stroke();
      }
      g.globalAlpha = 1;
    }
    const now = this.geometry.angle(ticks % size);
    g.beginPath();
    g.arc(radius * Math.cos(now), radius * Math.sin(now), 4, 0, turn);
    g.fill();
  }
}
