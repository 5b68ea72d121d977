// The page listens to the server's snapshots and shows them.

import { Histogram, Spark } from "./charts.js";
import { Controls } from "./controls.js";
import { count, rate, time } from "./format.js";
import { Legend } from "./legend.js";
import { Wheel } from "./wheel.js";

const $ = (id) => document.getElementById(id);
const retry = 1000; // ms until the next attempt to reach the server
const silence = 3000; // ms without a snapshot after which the server counts as lost
const still = matchMedia("(prefers-reduced-motion: reduce)");

const wheel = new Wheel({
  dial: $("dial"), canvas: $("wheel"), flights: $("flights"), labels: $("labels"),
  outline: document.querySelectorAll("#outline path"), hub: $("hub"), readout: $("readout"),
});
const legend = new Legend({ canvas: $("legend"), top: $("legend-top"), rings: $("rings") });
const histogram = new Histogram($("lateness"));
const controls = new Controls();

const tiles = [
  ["pending", "Pending", (s) => s.pending, count, "other", "will run unless they are canceled"],
  ["queued", "Queued", (s) => s.queued, count, "other", "wait for the wheel at the next tick"],
  ["scheduled", "Scheduled a second", (s) => s.rates.scheduled, rate, "scheduled", "armed with a delay"],
  ["canceled", "Canceled a second", (s) => s.rates.canceled, rate, "canceled", "answered in time: they never run"],
  ["expired", "Expired a second", (s) => s.rates.expired, rate, "expired", "they came due: the task started"],
  ["wakeups", "Wake-ups a second", (s) => s.rates.wakeups, rate, "other", "one for each tick with work, none when idle"],
  ["running", "Tasks running", (s) => s.running, count, "other", "started and not yet returned"],
  ["runners", "Runners", (s) => s.runners, count, "other", "goroutines for tasks: few, unless they block"],
  ["goroutines", "Goroutines", (s) => s.goroutines, count, "other", "in the process, web server included"],
  ["rejected", "Refused", (s) => s.counts.rejected, count, "other", "while a million are pending"],
].map(([id, name, value, write, color, note]) => {
  const spark = new Spark($("tiles"), { name, note, color, write });
  spark.value.id = id;
  return { spark, value };
});

let last; // the snapshot that is shown
let seen = 0; // when the last snapshot came
let drawn = 0; // when the wheel was drawn
let written = 0; // when the numbers were written

function take(snapshot) {
  last = snapshot;
  for (const { spark, value } of tiles) spark.add(value(snapshot));
  controls.show(snapshot);
  requestAnimationFrame(show);
}

// show draws the last snapshot: the wheel each time, and the numbers a few times a second.
function show(now) {
  const every = still.matches ? 1000 : 0;
  if (now - drawn >= every) {
    drawn = now;
    wheel.show(last);
  }
  if (now - written < Math.max(every, 240)) return;
  written = now;
  legend.show(last, wheel.top);
  for (const { spark } of tiles) spark.draw();
  histogram.show(last.lateness, last.wheel.tickMs);
  const { count: n, p50, p99, max } = last.lateness;
  for (const [id, micros] of Object.entries({ p50, p99, max })) $(id).textContent = n > 0 ? time(micros / 1000) : "–";
  $("early").textContent = count(last.early);
}

let source;
let again; // the timer of the next attempt

function connect() {
  clearTimeout(again);
  again = undefined;
  source?.close();
  seen = performance.now();
  source = new EventSource("events");
  source.onmessage = (e) => {
    seen = performance.now();
    say("live", "live");
    take(JSON.parse(e.data));
  };
  source.onerror = lost;
}

function lost() {
  source.close();
  say("lost", last ? "The server is gone. The page shows its last data, and tries again every second." : "No answer from the server. The page tries again every second.");
  again ??= setTimeout(connect, retry);
}

// say changes the status only if the text is new, because a screen reader reads each change aloud.
function say(name, text) {
  const status = $("status");
  document.body.classList.toggle("lost", name === "lost");
  if (status.textContent === text) return;
  status.className = name;
  status.textContent = text;
}

// If the server hangs, the stream does not end. A hidden page needs no stream.
setInterval(() => {
  if (!document.hidden && again === undefined && performance.now() - seen > silence) lost();
}, 500);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    connect();
    return;
  }
  clearTimeout(again);
  again = undefined;
  source.close();
});
connect();
