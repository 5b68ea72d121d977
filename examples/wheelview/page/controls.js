// The controls. A change is sent at once, that of a slider when it has not moved for a moment. The controls show
// the settings that the server reports.

import { count, time } from "./format.js";

const $ = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");

// The positions of the sliders whose values are not evenly spaced.
const steps = (from, to) => {
  const values = [];
  for (let ten = from; ten <= to; ten *= 10) values.push(ten, 2 * ten, 5 * ten);
  return values.filter((v) => v <= to);
};
const rates = [0, ...steps(1, 200_000)];
const delays = [...steps(10, 50_000).filter((v) => v < 50_000), 30_000, 60_000, 120_000, 300_000, 600_000].sort((a, b) => a - b);
const percent = Array.from({ length: 101 }, (_, i) => i / 100);

const sliders = {
  rate: { field: "rate", values: rates, write: count },
  share: { field: "canceled", values: percent, write: (v) => `${count(v * 100)} %` },
  "min-delay": { field: "minDelayMs", values: delays, write: time },
  "max-delay": { field: "maxDelayMs", values: delays, write: time },
};
const choices = {
  tick: { field: "tickMs", values: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], write: time },
  levels: { field: "levels", values: [1, 2, 3], write: String },
  size: { field: "size", values: [16, 32, 64, 128, 256, 512], write: String },
};
const fields = { tasks: "tasks", seconds: "seconds" };
for (const [id, c] of Object.entries({ ...sliders, ...choices })) fields[c.field] = id;

// The settings that the buttons beside the text apply.
const startWheel = { tickMs: 20, levels: 3, size: 64 };
const startLoad = { rate: 2000, canceled: 0.8, minDelayMs: 100, maxDelayMs: 120_000 };
const tries = {
  start: [startWheel, startLoad],
  single: [{ ...startWheel, levels: 1 }, startLoad],
  busy: [{ tickMs: 10, levels: 1, size: 512 }, { rate: 100_000, canceled: 0.99, minDelayMs: 1000, maxDelayMs: 5000 }],
  sparse: [{ tickMs: 20, levels: 1, size: 256 }, { rate: 3, canceled: 0, minDelayMs: 500, maxDelayMs: 5000 }],
  none: [{ tickMs: 20, levels: 1, size: 256 }, { rate: 0 }],
  slow: [{ tickMs: 1000, levels: 1, size: 64 }, { rate: 2000, canceled: 0.8, minDelayMs: 5000, maxDelayMs: 60_000 }],
};

// nearest returns the position of a slider whose value is nearest to the given value.
function nearest(values, value) {
  let best = 0;
  values.forEach((v, i) => {
    if (Math.abs(v - value) < Math.abs(values[best] - value)) best = i;
  });
  return best;
}

export class Controls {
  constructor() {
    this.sending = 0; // the number of changes in progress; until they have ended, the controls stay as they are
    for (const [id, c] of Object.entries(sliders)) {
      const input = $(id);
      input.max = c.values.length - 1;
      input.addEventListener("input", () => {
        const value = c.values[input.value];
        this.write(id, value);
        const load = { [c.field]: value };
        // If the shortest delay gets longer than the longest, both move, and the other way round.
        const other = { "min-delay": "max-delay", "max-delay": "min-delay" }[id];
        if (other && (id === "min-delay") === (Number(input.value) > Number($(other).value))) {
          $(other).value = input.value;
          this.write(other, value);
          load[sliders[other].field] = value;
        }
        this.later(load);
      });
    }
    for (const [id, c] of Object.entries(choices)) {
      $(id).append(...c.values.map((v) => new Option(c.write(v), v)));
      $(id).addEventListener("change", () => this.post("wheel", { [c.field]: Number($(id).value) }));
    }
    $("controls").addEventListener("submit", (e) => {
      e.preventDefault();
      this.post("block", { tasks: Number($("tasks").value), seconds: Number($("seconds").value) });
    });
    $("controls").noValidate = true; // the server says what is wrong
    for (const button of document.querySelectorAll("[data-try]")) {
      button.addEventListener("click", async () => {
        $("stage").scrollIntoView({ behavior: still.matches ? "auto" : "smooth" });
        const [wheel, load] = tries[button.dataset.try];
        if (await this.post("load", load)) await this.post("wheel", wheel);
      });
    }
  }

  // later sends the load, with all changes, when no slider has moved for a moment.
  later(load) {
    this.load = { ...this.load, ...load };
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      const load = this.load;
      this.load = this.rest = undefined;
      this.post("load", load);
    }, 80);
  }

  // post sends a change and reports whether it was accepted. If not, the page says why.
  async post(path, change) {
    this.sending++;
    try {
      const response = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(change),
      });
      const wrong = response.ok ? {} : await response.json();
      this.complain(wrong);
      return response.ok;
    } catch {
      this.complain({ error: "the server could not be reached" });
      return false;
    } finally {
      this.sending--;
      this.settled = performance.now();
    }
  }

  complain({ error = "", field }) {
    $("message").textContent = error && `Not changed: ${error}.`;
    for (const id of Object.values(fields)) $(id).setAttribute("aria-invalid", String(fields[field] === id));
  }

  write(id, value) {
    const text = sliders[id].write(value);
    $(`${id}-out`).textContent = text;
    $(id).setAttribute("aria-valuetext", text);
  }

  // show sets the controls to the settings in force, unless the user is changing them.
  show({ wheel, load, timer, handedBack }) {
    const busy = this.rest !== undefined || this.sending > 0 || performance.now() - this.settled < 200;
    if (busy) return;
    for (const [id, c] of Object.entries(sliders)) {
      const value = load[c.field];
      const at = String(nearest(c.values, value));
      if ($(id).value !== at) $(id).value = at;
      this.write(id, value);
    }
    for (const [id, c] of Object.entries(choices)) {
      const value = String(wheel[c.field]);
      if ($(id).value === value) continue;
      if (![...$(id).options].some((o) => o.value === value)) $(id).append(new Option(c.write(wheel[c.field]), value));
      $(id).value = value;
    }
    $("generation").textContent = timer > 1 ? `This is timer ${count(timer)}. The previous one handed back ${count(handedBack)} timeouts.` : "";
  }
}
