// The labels of the rings: SVG text that follows the outer edge of each ring.

import { time } from "./format.js";
import { ticksPer } from "./geometry.js";

const svg = "http://www.w3.org/2000/svg";

export class Labels {
  constructor(group) {
    this.group = group;
    this.rings = [];
  }

  // show writes the labels, if anything about them has changed.
  show(geometry, tickMs) {
    if (this.geometry === geometry && this.tickMs === tickMs) return;
    this.geometry = geometry;
    this.tickMs = tickMs;
    const { half, levels, size, room } = geometry;
    this.group.ownerSVGElement.setAttribute("viewBox", `${-half} ${-half} ${2 * half} ${2 * half}`);
    while (this.rings.length > levels) for (const e of this.rings.pop()) e.remove();
    for (let level = 0; level < levels; level++) {
      const [path, text] = (this.rings[level] ??= this.add(level));
      const radius = geometry.ring(level)[1] + room * 0.3;
      path.setAttribute("d", `M${-radius} 0A${radius} ${radius} 0 0 1 ${radius} 0`);
      const bucket = ticksPer(level, size) * tickMs;
      text.setAttribute("font-size", room * 0.72);
      text.firstChild.textContent = `one bucket ${time(bucket)}, one turn ${time(bucket * size)}`;
    }
  }

  add(level) {
    const path = document.createElementNS(svg, "path");
    path.id = `ring-${level + 1}`;
    const text = document.createElementNS(svg, "text");
    const along = document.createElementNS(svg, "textPath");
    along.setAttribute("href", `#${path.id}`);
    along.setAttribute("startOffset", "50%");
    text.append(along);
    this.group.append(path, text);
    return [path, text];
  }
}
