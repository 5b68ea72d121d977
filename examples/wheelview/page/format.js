// How numbers are written.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const two = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 2 });
const three = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

export const count = (n) => whole.format(n);

// rate writes a number per second. A number below 10 gets one more digit, because it is counted over about a second.
export const rate = (n) => (n < 10 ? three.format(Math.round(n * 10) / 10) : whole.format(n));

// time writes a duration, given in milliseconds.
export const time = (ms) => inUnits(ms, three);

// rough is time with a digit less, where there is little room.
export const rough = (ms) => inUnits(ms, two);

function inUnits(ms, digits) {
  if (ms < 1) return `${digits.format(ms * 1000)} µs`;
  if (ms < 1000) return `${digits.format(ms)} ms`;
  if (ms < 60_000) return `${digits.format(ms / 1000)} s`;
  if (ms < 3_600_000) return `${digits.format(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${digits.format(ms / 3_600_000)} h`;
  return `${digits.format(ms / 86_400_000)} days`;
}

export const timeouts = (n) => `${count(n)} ${n === 1 ? "timeout" : "timeouts"}`;
