// Where things are on the wheel: radii and angles, in CSS pixels from its middle.

export const turn = 2 * Math.PI;
const holes = [0, 0.6, 0.52, 0.47]; // of the outer radius, by the number of levels

// ticksPer returns how many ticks one bucket of a level spans: half a turn of the level below.
export const ticksPer = (level, size) => (size / 2) ** level;

// A Geometry describes a wheel that is drawn width pixels wide. The first level is the innermost ring, and
// slots run clockwise from the top.
export class Geometry {
  constructor(width, { levels, size }) {
    this.half = width / 2;
    this.levels = levels;
    this.size = size;
    this.step = turn / size; // the angle of one bucket
    this.room = this.half < 200 ? 14 : 17; // for the label outside each ring
    const radius = this.half - this.room - 2;
    this.hole = radius * holes[levels];
    this.thick = (radius - this.hole - this.room * (levels - 1)) / levels;
  }

  // ring returns the inner and the outer radius of a level.
  ring(level) {
    const inner = this.hole + level * (this.thick + this.room);
    return [inner, inner + this.thick];
  }

  // angle returns the direction of the middle of a slot.
  angle(slot) {
    return (slot + 0.5) * this.step - turn / 4;
  }

  // find returns the level and the slot at a point, or null.
  find(x, y) {
    const radius = Math.hypot(x, y);
    const angle = (Math.atan2(y, x) + turn * 1.25) % turn;
    for (let level = 0; level < this.levels; level++) {
      const [inner, outer] = this.ring(level);
      if (radius >= inner && radius <= outer) return { level, slot: Math.min(this.size - 1, Math.floor(angle / this.step)) };
    }
    return null;
  }

  // outline returns an SVG path around one bucket, a little larger than the bucket itself.
  outline({ level, slot }) {
    const [inner, outer] = this.ring(level);
    const from = inner - 1.5;
    const to = outer + 1.5;
    const a = this.angle(slot) - this.step / 2 - 1 / outer;
    const b = this.angle(slot) + this.step / 2 + 1 / outer;
    const at = (radius, angle) => `${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`;
    return `M${at(from, a)}L${at(to, a)}A${to} ${to} 0 0 1 ${at(to, b)}L${at(from, b)}A${from} ${from} 0 0 0 ${at(from, a)}Z`;
  }
}
