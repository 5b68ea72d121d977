// The story of the first sixteen seconds, the figures and the controls.
import { wheel } from "./wasm.js";
import { Dial, buckets } from "./dial.js";

const id = (name) => document.getElementById(name);
const still = matchMedia("(prefers-reduced-motion: reduce)");
const count = (n) => n.toLocaleString("en-US");
const steps = [...id("steps").children];
const dial = new Dial(id("dial"), click);
let now = 0; // in ticks
let rate = 0; // of the load, a second
let story; // what is yet to come
let first, second; // timeouts of the story

const show = (n) => steps.forEach((li, i) => li.classList.toggle("now", i === n));

function load(perSecond) {
  rate = perSecond;
  dial.labeled = rate === 0; // later there is no room
  id("rate").value = rate ? Math.log10(rate) * 25 : 0;
  id("rate-out").value = count(rate);
  const share = id("share").value;
  id("share-out").value = `${share} %`;
  wheel.load(rate, share / 100);
}

// begin starts a new wheel, and the story, whose times are ticks.
function begin() {
  wheel.start();
  first = wheel.arm(160, 0);
  dial.clear(first);
  for (const name of ["fired-at", "second", "said"]) id(name).textContent = "";
  for (const name of ["share-seen", "late"]) id(name).textContent = "–";
  load(0);
  show(0);
  story = [
    [45, () => show(1)],
    [200, () => {
      show(2);
      const tick = Math.floor(now) + 160;
      second = wheel.arm(tick, 0);
      dial.focus = second;
      id("second").textContent = `Tick ${tick} mod 64 = bucket ${tick % buckets}.`;
    }],
    [300, () => wheel.cancel(second)],
    [380, () => { show(3); load(30); }],
    [430, () => load(120)],
    [480, () => load(400)],
    [800, () => show(4)],
  ];
}

// click arms a timeout in a bucket, or cancels one.
function click(bucket, timeout) {
  if (timeout) {
    id("said").value = wheel.cancel(timeout) ? "Canceled." : "It had fired.";
    return;
  }
  const soon = Math.ceil(now) + buckets;
  const tick = soon + ((bucket - soon) % buckets + buckets) % buckets;
  wheel.arm(tick, 0);
  id("said").value = `${((tick - now) / 50).toFixed(2)} s: tick ${count(tick)} mod 64 = bucket ${bucket}.`;
}

function update(f) {
  now = f.now;
  while (story.length > 0 && story[0][0] <= now) story.shift()[1]();
  for (const e of f.events) {
    dial.happens(e);
    if (e.id === first && e.kind === 1) id("fired-at").textContent = `It ran ${e.late.toFixed(1)} ms after its tick.`;
  }
  id("tick").textContent = count(Math.floor(now));
  id("mod").textContent = `mod 64 = ${Math.floor(now) % buckets}`;
  for (const name of ["pending", "fired", "canceled"]) id(name).textContent = count(f[name]);
  const ended = f.fired + f.canceled;
  if (ended > 20) id("share-seen").textContent = `${Math.floor((100 * f.canceled) / ended)} %`;
  if (f.running > 0) id("said").value = `${f.running} tasks block. The others start as before, on other goroutines.`;
  if (f.measured > 0) id("late").textContent = `${f.most.toFixed(f.most < 100 ? 1 : 0)} ms`;
}

id("rate").oninput = (e) => {
  story = [];
  dial.focus = undefined;
  show(4);
  load(e.target.value > 0 ? Math.round(10 ** (e.target.value / 25)) : 0);
};
id("share").oninput = () => load(rate);
id("replay").onclick = begin;
id("block").onclick = () => {
  for (let i = 0; i < 20; i++) wheel.arm(Math.ceil(now) + 25 + i, 4000);
};

let drawn = -Infinity;
function frame(time) {
  requestAnimationFrame(frame);
  if (still.matches && time - drawn < 1000) return;
  drawn = time;
  const f = wheel.frame();
  update(f);
  dial.draw(f, still.matches);
}
begin();
requestAnimationFrame(frame);
