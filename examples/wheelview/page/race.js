// Runs the race of race.go for several numbers of pending timers, and shows the scores.
import { wheel } from "./wasm.js";

const button = document.getElementById("run");
const rows = document.getElementById("rows");
const lap = document.getElementById("lap");

// fill shows the figures of both sides in two cells.
function fill(cells, unit, digits, values) {
  cells.forEach((td, i) => {
    td.textContent = values[i] > 0 ? `${values[i].toFixed(digits)} ${unit}` : "–"; // none has fired yet
    td.className = values[i] < values[1 - i] ? "ahead" : "";
  });
}

async function run() {
  button.disabled = true;
  rows.replaceChildren();
  for (const pending of [10, 1_000, 100_000]) {
    const name = pending.toLocaleString("en-US");
    const tr = rows.insertRow();
    const cells = [0, 1, 2, 3, 4].map(() => tr.insertCell());
    cells[0].textContent = name;
    await new Promise((done) => wheel.race(pending, (n, laps, time, own, timeLate, ownLate) => {
      fill(cells.slice(1, 3), "ns", 0, [time, own]);
      fill(cells.slice(3), "ms", 1, [timeLate, ownLate]);
      lap.textContent = `${name} pending, lap ${n} of ${laps}`;
      if (n === laps) done();
    }));
  }
  lap.textContent = "Finished.";
  button.disabled = false;
}

button.onclick = run;
run();
