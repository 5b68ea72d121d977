// The scale of the wheel's colors, and the table of its rings.

import { colors, fit, onTheme, shades } from "./colors.js";
import { count, time } from "./format.js";
import { ticksPer } from "./geometry.js";

export class Legend {
  constructor({ canvas, top, rings }) {
    Object.assign(this, { canvas, text: top, rings });
    this.top = 1;
    onTheme(() => this.draw());
  }

  // show writes the scale up to the fullest bucket, and a row for each ring.
  show({ wheel, levels }, top) {
    this.top = top;
    this.draw();
    this.text.textContent = count(Math.round(top));
    while (this.rings.rows.length > wheel.levels) this.rings.deleteRow(-1);
    for (let level = 0; level < wheel.levels; level++) {
      const row = this.rings.rows[level] ?? this.addRow(level);
      const view = levels[level];
      const each = ticksPer(level, wheel.size) * wheel.tickMs;
      const cells = [time(each), time(each * wheel.size), `${count(view?.occupied ?? 0)}/${wheel.size}`, count(view?.timeouts ?? 0)];
      cells.forEach((text, i) => (row.cells[i + 1].textContent = text));
    }
  }

  addRow(level) {
    const row = this.rings.insertRow();
    row.innerHTML = "<th scope=row></th><td></td><td></td><td></td><td></td>";
    row.cells[0].textContent = level + 1;
    return row;
  }

  // draw draws the colors, and under them the marks for 1, 10, 100 and so on.
  draw() {
    const g = fit(this.canvas);
    const width = this.canvas.clientWidth;
    const tall = 12;
    colors.ramp.forEach((color, i) => {
      g.fillStyle = color;
      g.fillRect((i * width) / shades, 0, width / shades + 1, tall);
    });
    g.fillStyle = g.strokeStyle = colors.soft;
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "top";
    g.beginPath();
    for (let n = 1; n <= this.top; n *= 10) {
      const x = (Math.log(n) / Math.log1p(this.top)) * width;
      if (x > width - 12) break;
      g.moveTo(x + 0.5, tall);
      g.lineTo(x + 0.5, tall + 4);
      g.textAlign = n === 1 ? "left" : "center";
      g.fillText(count(n), x, tall + 5);
    }
    g.stroke();
  }
}
