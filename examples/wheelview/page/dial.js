// The dial: a wedge for each bucket, a dot for each timeout, and the hand.

export const buckets = 64;
const rows = 10; // of dots in a wedge
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

  // clear forgets all dots. The focus is the id of the timeout that is circled.
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
      for (const d of this.dots.values()) if (d.kind === armed && d.tick % buckets === tick % buckets) taken.add(d.row);
      let row = 0;
      while (taken.has(row) && row < rows - 1) row++;
      this.dots.set(id, (dot = { id, tick, row }));
    }
    dot.kind = kind;
    dot.since = performance.now();
  }

  // place returns where a dot is, in pixels from the middle.
  place({ tick, row }) {
    const radius = this.inner + ((row + 0.5) * (this.outer - this.inner)) / rows;
    const angle = ((tick % buckets) / buckets) * turn - turn / 4;
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
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
    const live = [...this.dots.values()].filter((d) => d.kind === armed && near(d) <= reach);
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
    this.size = this.half * 0.0125; // of a dot
    if (!this.colors) {
      const style = getComputedStyle(document.documentElement);
      const names = ["ring", "fill", "now", "later", "fired", "canceled", "hand", "blocked"];
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
  }

  circle(g, x, y, radius, fill) {
    g.beginPath();
    g.arc(x, y, radius, 0, turn);
    if (fill) g.fill();
    else g.stroke();
  }

  // lies draws a timeout that drops into its bucket, and lies there.
  lies(g, dot, part, now) {
    let [x, y] = this.place(dot);
    const far = 1 + (1 - part) * ((this.outer - this.size) / Math.hypot(x, y) - 1); // from the rim
    [x, y] = [x * far, y * far];
    g.fillStyle = dot.tick - now < buckets ? this.colors.now : this.colors.later;
    const size = this.size * (dot.id === this.focus ? 1.7 : 1);
    this.circle(g, x, y, size, true);
    if (dot.id === this.focus) {
      g.strokeStyle = this.colors.now;
      g.lineWidth = 1.5;
      this.circle(g, x, y, size + 5, false);
    }
  }

  // leaves draws a timeout that has fired, which flashes, or that is canceled, which fades.
  leaves(g, dot, part) {
    const [x, y] = this.place(dot);
    const big = dot.id === this.focus ? 2.2 : 1;
    g.globalAlpha = Math.max(0, 1 - part) ** (dot.kind === canceled ? 1 : 1.5);
    if (dot.kind === canceled) {
      g.strokeStyle = this.colors.canceled;
      g.lineWidth = 1.6;
      this.circle(g, x, y, this.size * big * (1 - 0.4 * part), false);
    } else if (dot.kind === fired) {
      g.fillStyle = g.strokeStyle = this.colors.fired;
      g.lineWidth = 2;
      this.circle(g, x, y, this.size * big * 1.5 * (1 - part / 2), true);
      this.circle(g, x, y, this.size * big * (1.5 + 3 * ease(part)), false);
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
