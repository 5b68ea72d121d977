// The dots that fly: timeouts that land in a bucket, and timeouts that expire under the hand.

import { colors, fit } from "./colors.js";
import { turn } from "./geometry.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");
const most = { land: 14, leave: 8 }; // dots that start between two snapshots; more would be a blur
const lasts = { land: 450, leave: 550 }; // ms
const spread = 66; // ms over which the dots of a snapshot start: the time until the next one

// moves compares two snapshots of a timer. It returns the buckets that hold more than before, the
// buckets of the first ring that the hand has passed, and how many timeouts have expired.
export function moves(before, after) {
  const landed = [];
  after.levels.forEach((l, level) => {
    l.buckets.forEach((n, slot) => {
      if (n > (before.levels[level]?.buckets[slot] ?? 0)) landed.push({ level, slot });
    });
  });
  const expired = after.counts.expired - before.counts.expired;
  const left = [];
  if (expired > 0) {
    const { size } = after.wheel;
    const was = before.levels[0];
    const ticks = after.ticks - before.ticks;
    const hand = after.levels[0]?.hand ?? after.ticks % size;
    const passed = !was ? 0 : ticks >= size ? size : (hand - was.hand + size) % size;
    for (let i = 1; i <= passed; i++) {
      const slot = (was.hand + i) % size;
      if (was.buckets[slot] > 0) left.push({ level: 0, slot });
    }
    // A timeout that was armed after the first snapshot and expired before the second is in no bucket of either.
    if (left.length === 0) left.push({ level: 0, slot: hand });
  }
  return { landed, left, expired };
}

export class Flights {
  constructor(canvas) {
    this.canvas = canvas;
    this.dots = [];
  }

  place(geometry) {
    if (this.geometry !== geometry) this.clear();
    this.geometry = geometry;
  }

  clear() {
    this.dots = [];
  }

  // start starts dots for a sample of the timeouts that have moved between two snapshots.
  start(before, after) {
    if (still.matches || document.hidden) return;
    const { landed, left, expired } = moves(before, after);
    const now = performance.now();
    const add = (kind, { level, slot }) => {
      const [inner, outer] = this.geometry.ring(level);
      const middle = (inner + outer) / 2;
      const to = kind === "land" ? middle : this.geometry.hole * 0.72;
      const from = kind === "land" ? outer + this.geometry.room : middle;
      this.dots.push({ kind, from, to, angle: this.geometry.angle(slot), start: now + Math.random() * spread });
    };
    for (let i = 0; i < most.land && landed.length > 0; i++) {
      add("land", landed.splice(Math.floor(Math.random() * landed.length), 1)[0]);
    }
    for (let i = 0; i < Math.min(most.leave, expired); i++) add("leave", left[i % left.length]);
    if (this.dots.length > 0) this.frame ??= requestAnimationFrame((t) => this.draw(t));
  }

  draw(now) {
    this.frame = undefined;
    const g = fit(this.canvas);
    g.translate(this.canvas.clientWidth / 2, this.canvas.clientWidth / 2);
    this.dots = this.dots.filter((d) => now - d.start < lasts[d.kind]);
    g.lineWidth = 1.5;
    g.strokeStyle = colors.card;
    for (const { kind, from, to, angle, start } of this.dots) {
      const part = (now - start) / lasts[kind];
      if (part < 0) continue;
      const radius = from + (to - from) * part * (2 - part);
      g.beginPath();
      g.arc(radius * Math.cos(angle), radius * Math.sin(angle), 4.2 - 2.2 * part, 0, turn);
      g.fillStyle = kind === "land" ? colors.scheduled : colors.expired;
      g.fill();
      g.stroke();
    }
    if (this.dots.length > 0) this.frame = requestAnimationFrame((t) => this.draw(t));
  }
}
