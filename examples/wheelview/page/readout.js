// The readout says what is in the bucket under the pointer, in the hub and in a sentence. If there is
// no such bucket, the hub says how many timeouts are pending.

import { count, rough, time, timeouts } from "./format.js";
import { ticksPer } from "./geometry.js";

export class Readout {
  constructor({ canvas, outline, hub, readout }) {
    Object.assign(this, { canvas, outline, hub, sentence: readout });
    this.hint = [...readout.childNodes];
    this.point = null; // where the pointer is, from the middle of the wheel
    canvas.addEventListener("pointermove", (e) => this.move(e));
    canvas.addEventListener("pointerdown", (e) => this.move(e));
    // Lifting a finger is a leave too, but the chosen bucket stays.
    canvas.addEventListener("pointerleave", (e) => {
      if (e.pointerType === "mouse") this.move(null);
    });
  }

  move(e) {
    const box = this.canvas.getBoundingClientRect();
    this.point = e && { x: e.clientX - box.left - box.width / 2, y: e.clientY - box.top - box.height / 2 };
    if (this.snapshot) this.show(this.geometry, this.snapshot);
  }

  show(geometry, snapshot) {
    this.geometry = geometry;
    this.snapshot = snapshot;
    const at = this.point && geometry.find(this.point.x, this.point.y);
    for (const path of this.outline) path.setAttribute("d", at ? geometry.outline(at) : "");
    if (!at) {
      const { pending, queued, levels, runners } = snapshot;
      this.write("", count(pending), "pending", levels.length === 0 && runners === 0 ? "no goroutine" : queued > 0 ? `${count(queued)} queued` : "");
      if (this.sentence.firstChild !== this.hint[0]) this.sentence.replaceChildren(...this.hint);
      return;
    }
    const name = `ring ${at.level + 1}`;
    const n = snapshot.levels[at.level]?.buckets[at.slot] ?? 0;
    const wait = this.wait(at, n);
    this.write(name, count(n), `in bucket ${at.slot}`, wait === undefined ? "now" : `hand in ${rough(wait)}`);
    const text = `Ring ${at.level + 1}, bucket ${at.slot}: ${timeouts(n)}. ${this.explain(at, n, wait)}`;
    if (this.sentence.textContent !== text) this.sentence.textContent = text;
  }

  // wait returns how many milliseconds remain until the hand gets to a bucket, undefined if it is there or
  // has skipped it just now.
  // The hand stays in a bucket until another one has something due. A timeout that lands in the bucket
  // meanwhile is for the next turn.
  wait({ level, slot }, n) {
    const { wheel, levels, ticks } = this.snapshot;
    const each = ticksPer(level, wheel.size);
    const blocks = (slot - (Math.floor(ticks / each) % wheel.size) + wheel.size) % wheel.size;
    const here = levels[level]?.hand === slot;
    if (here ? n === 0 : blocks === 0) return undefined;
    return ((blocks || wheel.size) * each - (ticks % each)) * wheel.tickMs;
  }

  explain({ level }, n, wait) {
    const { wheel, load } = this.snapshot;
    if (n === 0) {
      return wait === undefined ? "Nothing more is due in this span of time."
        : "Nothing is due in this span of time yet.";
    }
    const when = wait === undefined ? "now" : `in ${time(wait)}`;
    const reach = ticksPer(level, wheel.size) * wheel.size * wheel.tickMs;
    if (level === wheel.levels - 1 && load.maxDelayMs > reach) {
      return `The hand gets here ${when}. Timeouts that are due in a later turn stay.`;
    }
    return level === 0 ? `What is due expires when the hand gets here, ${when}.` : `What is due moves one ring inward before the hand gets here, ${when}.`;
  }

  write(...lines) {
    lines.forEach((line, i) => {
      if (this.hub.children[i].textContent !== line) this.hub.children[i].textContent = line;
    });
  }
}
