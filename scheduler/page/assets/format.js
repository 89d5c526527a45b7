// Numbers and times in words.

const GIB = 2 ** 30;

export function bytes(count) {
  if (count >= 1024 * GIB * 10) return `${(count / GIB / 1024).toFixed(0)} TiB`;
  if (count >= 1024 * GIB) return `${trim((count / GIB / 1024).toFixed(1))} TiB`;
  if (count >= 10 * GIB) return `${(count / GIB).toFixed(0)} GiB`;
  if (count >= GIB) return `${trim((count / GIB).toFixed(1))} GiB`;
  return count === 0 ? "0" : `${Math.max(1, Math.round(count / 2 ** 20))} MiB`;
}

const trim = (text) => text.replace(/\.0$/, "");

// "412 of 640 GiB"
export function part(used, all) {
  const [one, other] = [bytes(used), bytes(all)];
  const unit = other.slice(other.indexOf(" "));
  return `${one.endsWith(unit) ? one.slice(0, -unit.length) : one} of ${other}`;
}

// None for nothing; something is never none, and never all unless it is.
export function percent(used, all) {
  if (all <= 0 || used <= 0) return 0;
  if (used >= all) return 100;
  return Math.min(99, Math.max(1, Math.round(used / all * 100)));
}

export function lasting(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 36000) return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} days`;
}

const clock = new Intl.DateTimeFormat(undefined, {timeStyle: "medium"});
const day = new Intl.DateTimeFormat(undefined, {dateStyle: "medium", timeStyle: "medium"});
export const timeOf = (ms) => clock.format(ms);
export const momentOf = (ms) => day.format(ms);

export const number = (count) => count.toLocaleString("en").replaceAll(",", "\u202f");

export function many(count, one, more = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : more}`;
}
