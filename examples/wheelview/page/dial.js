// The dial: a wedge for each bucket, a dot for each timeout, and the hand.

export const buckets = 64;
const rows = 10; // of dots in a wedge
const longest = 160; // ticks from the hand to a timeout that is explained
const turn = 2 * Math.PI;
const [armed, fired, canceled, blocked, released] = [0, 1, 2, 3, 4];
const lasts = { [armed]: 700, [fired]: 900, [canceled]: 1100, [blocked]: 600, [released]: 500 }; // milliseconds
const ease = (t) => 1 - (1 - Math.min(1, t)) ** 3;

export class Dial {
  // The function click gets a bucket, and the id of the timeout at that point, if there is one.
  constructor(box, click) {
    this.canvas = box.querySelector("canvas");
    this.dots = new Map();
    this.chosen = -1; // the bucket that is outlined
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.onchange = () => (this.colors = undefined);
    this.canvas.onpointermove = (e) => (this.chosen = this.find(e).bucket);
    this.canvas.onpointerleave = () => (this.chosen = -1);
    this.canvas.onclick = (e) => {
      const { bucket, dot } = this.find(e);
      if (bucket >= 0) click(bucket, dot?.id);
    };
    this.canvas.onkeydown = (e) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (step) this.chosen = (Math.max(this.chosen, 0) + step + buckets) % buckets;
      else if (e.key === "Enter" && this.chosen >= 0) click(this.chosen);
      else if (e.key === "Delete") {
        const dot = [...this.dots.values()].find((d) => d.kind === armed && d.tick % buckets === this.chosen);
        if (dot) click(this.chosen, dot.id);
      } else return;
      e.preventDefault();
    };
  }

  // clear forgets all dots. The focus is the id of the timeout that is large and explained.
  clear(focus) {
    this.dots.clear();
    this.focus = focus;
  }

  // happens takes an event: see wheel.go.
  happens({ kind, id, tick }) {
    let dot = this.dots.get(id);
    if (!dot) {
      if (kind !== armed) return;
      const taken = new Set();
      for (const d of this.dots.values()) if (d.tick % buckets === tick % buckets) taken.add(d.row);
      let row = 0;
      while (taken.has(row)) row++;
      this.dots.set(id, (dot = { id, tick, row })); // rows beyond the last one are not drawn
    }
    dot.kind = kind;
    dot.since = performance.now();
  }

  // at returns the point where a tick and a radius meet, in pixels from the middle.
  at(tick, radius) {
    const angle = ((tick % buckets) / buckets) * turn - turn / 4;
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  }

  // place returns where a dot is.
  place({ id, tick, row }) {
    if (id === this.focus) row = (rows - 1) / 2; // it has room there
    return this.at(tick, this.inner + ((Math.min(row, rows - 1) + 0.5) * (this.outer - this.inner)) / rows);
  }

  large(dot) {
    return dot.id === this.focus ? 2.7 : 1;
  }

  find({ offsetX, offsetY }) {
    const [x, y] = [offsetX - this.half, offsetY - this.half];
    const radius = Math.hypot(x, y);
    if (!(radius >= this.inner && radius <= this.outer)) return { bucket: -1 };
    const near = (d) => {
      const [dx, dy] = this.place(d);
      return Math.hypot(x - dx, y - dy);
    };
    const reach = Math.max(this.size + 3, 9);
    const hit = (d) => d.kind === armed && d.row < rows && near(d) <= reach * this.large(d);
    const live = [...this.dots.values()].filter(hit);
    live.sort((a, b) => near(a) - near(b));
    const bucket = Math.round(((Math.atan2(y, x) + turn / 4) / turn) * buckets + buckets) % buckets;
    return { bucket: live[0] ? live[0].tick % buckets : bucket, dot: live[0] };
  }

  measure() {
    const width = this.canvas.clientWidth;
    const scale = devicePixelRatio;
    if (this.canvas.width !== Math.round(width * scale)) {
      this.canvas.width = this.canvas.height = Math.round(width * scale);
    }
    this.half = width / 2;
    this.outer = this.half - 24; // the marks lie outside
    this.inner = this.outer * 0.47;
    // The radius of a dot. A dot that fires is not quite twice as large, and touches none beside it.
    const row = (this.outer - this.inner) / rows;
    this.size = 0.26 * Math.min(row, (turn / buckets) * (this.inner + row / 2));
    if (!this.colors) {
      const style = getComputedStyle(document.documentElement);
      const names = ["ring", "fill", "now", "due", "later", "fired", "canceled", "hand", "blocked"];
      this.colors = Object.fromEntries(names.map((n) => [n, style.getPropertyValue(`--${n}`)]));
    }
    const g = this.canvas.getContext("2d");
    g.setTransform(scale, 0, 0, scale, (width * scale) / 2, (width * scale) / 2);
    g.clearRect(-this.half, -this.half, width, width);
    return g;
  }

  wedge(g, bucket, inner, outer) {
    const [a, b] = [-0.44, 0.44].map((d) => ((bucket + d) / buckets) * turn - turn / 4);
    g.beginPath();
    g.arc(0, 0, inner, a, b);
    g.arc(0, 0, outer, b, a, true);
    g.closePath();
  }

  draw(f, still) {
    const g = this.measure();
    const c = this.colors;
    const circled = this.dots.has(this.focus) ? this.dots.get(this.focus).tick % buckets : -1;
    for (let b = 0; b < buckets; b++) {
      this.wedge(g, b, this.inner, this.outer);
      g.fillStyle = c.ring;
      g.fill();
      g.fillStyle = c.fill;
      g.globalAlpha = Math.min(1, Math.log2(1 + f.buckets[b]) / 11);
      if (f.buckets[b] > 0) g.fill();
      g.globalAlpha = 1;
      if (b === this.chosen || b === circled) {
        g.strokeStyle = b === circled ? c.now : c.hand;
        g.lineWidth = 1.5;
        g.stroke();
      }
    }
    const focus = this.dots.get(this.focus);
    if (focus?.kind === armed) this.way(g, focus, f.now);
    this.hand(g, f.now);
    const at = performance.now();
    let waiting = 0;
    for (const dot of this.dots.values()) {
      const last = lasts[dot.kind] * (dot.id === this.focus || still ? 2 : 1);
      const part = still ? 1 : (at - dot.since) / last;
      if (dot.kind === blocked) this.waits(g, dot, waiting++, ease(part));
      else if (dot.kind === armed) this.lies(g, dot, ease(part), f.now);
      else if (at - dot.since < last) this.leaves(g, dot, still ? 0.3 : part);
      else this.dots.delete(dot.id);
    }
    if (this.dots.has(this.focus)) this.explain(g, focus, f.now);
  }

  // write writes a line of text on the wedges.
  write(g, text, x, y, align) {
    g.font = `600 ${Math.max(11, this.half / 26)}px system-ui, sans-serif`;
    g.textAlign = align;
    g.textBaseline = "middle";
    g.lineJoin = "round";
    g.lineWidth = 5;
    g.strokeStyle = this.colors.ring;
    g.strokeText(text, x, y);
    g.fillStyle = this.colors.hand;
    g.fillText(text, x, y);
  }

  // explain says beside the focus what it is.
  explain(g, dot, now) {
    const [x, y] = this.place(dot);
    const side = x > this.size ? -1 : 1; // where there is room
    const left = Math.max(0, Math.ceil(dot.tick - now));
    const text = {
      [armed]: ["a timeout", `due at tick ${dot.tick},`, `in ${left} ticks`],
      [fired]: ["it fires"],
      [canceled]: ["canceled"],
    }[dot.kind];
    const step = Math.max(14, this.half / 21);
    text.forEach((line, i) => {
      const below = (i - (text.length - 1) / 2) * step;
      this.write(g, line, x + side * this.size * 4.5, y + below, side < 0 ? "right" : "left");
    });
  }

  // way draws how far the hand has to go to a timeout: from the rim, a turn after another.
  way(g, dot, now) {
    const [end, rim] = [Math.hypot(...this.place(dot)), this.outer - this.size];
    g.strokeStyle = this.colors.later;
    g.lineWidth = Math.max(1.5, this.half / 180);
    g.setLineDash([this.size, this.size * 1.5]);
    g.beginPath();
    for (let left = 0; dot.tick - left > now; left += 0.5) {
      g.lineTo(...this.at(dot.tick - left, end + ((rim - end) * left) / longest));
    }
    g.stroke();
    g.setLineDash([]);
  }

  // hand draws the hand. It shows the present.
  hand(g, now) {
    const c = this.colors;
    const angle = (now / buckets) * turn - turn / 4;
    const [x, y] = [Math.cos(angle), Math.sin(angle)];
    g.strokeStyle = g.fillStyle = c.hand;
    g.lineWidth = Math.max(2, this.half / 130);
    g.lineCap = "round";
    g.beginPath();
    g.moveTo(x * this.inner * 0.97, y * this.inner * 0.97);
    g.lineTo(x * (this.outer + 2), y * (this.outer + 2));
    g.stroke();
    if (!this.labeled) return;
    const side = x < 0 ? -1 : 1; // the text is never upside down
    g.rotate(side < 0 ? angle + turn / 2 : angle);
    const middle = this.inner + 0.75 * (this.outer - this.inner);
    this.write(g, "hand: now", side * middle, -Math.max(10, this.half / 28), "center");
    g.rotate(side < 0 ? -angle - turn / 2 : -angle);
  }

  circle(g, x, y, radius, fill) {
    g.beginPath();
    g.arc(x, y, radius, 0, turn);
    if (fill) g.fill();
    else g.stroke();
  }

  // lies draws a timeout that lies in its bucket. The focus drops in from the rim, and others grow.
  lies(g, dot, part, now) {
    if (dot.row >= rows) return;
    let [x, y] = this.place(dot);
    g.fillStyle = dot.tick - now < buckets ? this.colors.due : this.colors.later;
    if (dot.id !== this.focus) {
      this.circle(g, x, y, this.size * part * (dot.tick - now < buckets ? 1 : 0.65), true);
      return;
    }
    const far = 1 + (1 - part) * (this.outer / Math.hypot(x, y) - 1);
    [x, y] = [x * far, y * far];
    const size = this.size * this.large(dot);
    this.circle(g, x, y, size, true);
    g.strokeStyle = this.colors.due;
    g.lineWidth = 1.5;
    this.circle(g, x, y, size + 5, false);
  }

  // leaves draws a timeout that has fired, which flashes, or that is canceled, which fades.
  leaves(g, dot, part) {
    if (dot.row >= rows) return;
    const [x, y] = this.place(dot);
    const size = this.size * this.large(dot);
    g.globalAlpha = Math.max(0, 1 - part) ** (dot.kind === canceled ? 1 : 1.5);
    if (dot.kind === canceled) {
      g.strokeStyle = this.colors.canceled;
      g.lineWidth = 1.6;
      this.circle(g, x, y, size * (1 - 0.4 * part), false);
    } else if (dot.kind === fired) {
      g.fillStyle = g.strokeStyle = this.colors.fired;
      g.lineWidth = this.size / 3;
      this.circle(g, x, y, size * 1.3 * (1 - part / 2), true);
      this.circle(g, x, y, size * (1.3 + 0.4 * ease(part)), false);
    }
    g.globalAlpha = 1;
  }

  // waits draws a task that blocks, on a ring around the hub.
  waits(g, dot, n, part) {
    const [x, y] = this.place(dot);
    const angle = (n / 40) * turn - turn / 4;
    const radius = this.inner * 0.88;
    const to = [radius * Math.cos(angle), radius * Math.sin(angle)];
    g.fillStyle = this.colors.blocked;
    this.circle(g, x + (to[0] - x) * part, y + (to[1] - y) * part, this.size * 1.2, true);
  }
}
