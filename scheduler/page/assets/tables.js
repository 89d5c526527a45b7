// The tables: their columns, and how they are kept up to date.
import {make, put, say, sync, unseen} from "./dom.js";
import {bytes, lasting, many, momentOf, number, part, percent} from "./format.js";

const PAGE = 50;
// What stands where there is nothing in particular.
const NOTHING = new Set(["none", "not said", "any", "shared", "tenant’s", "when it is released", "0"]);

// Of a lease or a request: "2 × 40 GiB".
const size = (gpus, of) => `${gpus > 1 ? `${gpus} × ` : ""}${of ? bytes(of) : "a quarter"}`;
const gpusOf = (lease) => lease.gpus.map((n) => n < 0 ? "?" : n).join(", ");
const share = (used, most) => most ? `${number(used)} of ${number(most)}` : number(used);

function whyWaiting(waiting) {
  switch (waiting.why) {
    case "members": return `${waiting.asking ?? 1} of ${waiting.members} of its gang have asked`;
    case "pick_up": return "placed; about to be granted";
    case "set_aside": return "devices are set aside for it as they become free";
    case "limit": return waiting.limit_of ? `limit of ${waiting.limit_of}`
                                          : "limit of its tenant, or of one above";
    default: return "does not fit now";
  }
}

// A column has `head`, and `text(row, now)`; `number` ones are aligned at their ends; those of
// `level` 2 and 3 are left out where there is little room; `bar(row)` is a part of a whole.
const lease = {
  id: {head: "Lease", text: (l) => l.id, code: true, level: 3},
  tenant: {head: "Tenant", text: (l) => l.tenant},
  place: {head: "Host and GPUs", text: (l) => `${l.server} · ${gpusOf(l)}`},
  memory: {head: "Memory", text: (l) => size(l.gpus.length, l.bytes), number: true},
  slice: {head: "Slice", text: (l) => l.slice ?? "none", level: 2},
  sessions: {head: "Sessions", text: (l) => share(l.sessions ?? 0, l.max_sessions), number: true, level: 2},
  program: {head: "Program", text: (l) => l.program || "not said", level: 2, long: true},
  since: {head: "Held for", text: (l, now) => lasting(now - l.created_ms), number: true, level: 2},
  ends: {
    head: "Ends",
    text: (l, now) => l.ending_ms ? `in ${lasting(l.ending_ms - now)}: ${l.ending_why}`
      : l.ends_ms ? `in ${lasting(l.ends_ms - now)}` : "when it is released",
    level: 2, long: true, alarm: (l) => Boolean(l.ending_ms)},
};

export const LEASES = {
  caption: "Leases that are held", none: "No lease is held.", key: (l) => l.id,
  columns: [lease.tenant, lease.place, lease.memory, lease.slice, lease.sessions, lease.program,
            lease.since, lease.ends, lease.id],
};
export const LEASES_OF_A_GPU = {
  caption: "Leases on this GPU", none: "No lease is on it.", key: (l) => l.id,
  columns: [lease.tenant, {...lease.memory, head: "Memory", text: (l) => bytes(l.bytes)},
            lease.program, lease.since].map((column) => ({...column, level: 1})),
};
export const TENANTS = {
  caption: "Tenants with what they, and those below them, have", none: "There is no tenant.",
  key: (t) => t.name,
  columns: [
    {head: "Tenant", text: (t) => t.name, indent: (t) => t.depth,
     note: (t) => t.parent ? `, below ${t.parent}` : ""},
    {head: "Memory used", text: (t) => t.limit ? part(t.used, t.limit) : bytes(t.used),
     bar: (t) => t.limit ? [t.used, t.limit, t.reserved ?? 0] : null},
    {head: "Reserved", text: (t) => t.reserved ? bytes(t.reserved) : "none", number: true, level: 2},
    {head: "Leases", text: (t) => share(t.leases, t.max_leases), number: true},
    {head: "Sessions", text: (t) => share(t.sessions, t.max_sessions), number: true, level: 2},
    {head: "Waiting", text: (t) => number(t.waiting), number: true},
  ],
};
export const WAITING = {
  caption: "Requests that wait for a lease, the next ones first", none: "Nobody waits.",
  key: (w) => String(w.number),
  columns: [
    {head: "Place", text: (w) => number(w.position), number: true},
    {head: "Tenant", text: (w) => w.tenant},
    {head: "Wants", text: (w) => (w.members > 1 ? `${w.members} × ` : "") + size(w.gpus, w.bytes) +
      (w.sm_percent ? `, ${w.sm_percent} % SM` : "")},
    {head: "Why it waits", text: whyWaiting, long: true},
    {head: "For", text: (w, now) => lasting(now - w.since_ms), number: true},
    {head: "Priority", text: (w) => number(w.priority ?? 0), number: true, level: 2},
    {head: "Gang", text: (w) => w.gang ?? "none", level: 3, long: true},
  ],
};
export const SLICES = {
  caption: "Slices that leases may be of", none: "There is no slice.", key: (s) => s.name,
  columns: [
    {head: "Slice", text: (s) => s.name},
    {head: "Memory", text: (s) => s.bytes ? bytes(s.bytes) : "any", number: true},
    {head: "Processors", text: (s) => s.sm_percent ? `${s.sm_percent} %` : "shared", number: true},
    {head: "Sessions", text: (s) => s.max_sessions ? number(s.max_sessions) : "any", number: true, level: 2},
    {head: "Weight", text: (s) => s.weight ? number(s.weight) : "tenant’s", number: true, level: 2},
    {head: "Leases", text: (s) => number(s.leases), number: true},
  ],
};
export const ENDED = {
  caption: "Leases that were ended in the last hour, the latest first",
  none: "No lease was ended before its time.", key: (e) => e.id,
  columns: [
    {head: "Ended", text: (e, now) => `${lasting(now - e.at_ms)} ago`, title: (e) => momentOf(e.at_ms), number: true},
    {head: "Tenant", text: (e) => e.tenant},
    {head: "Had", text: (e) => size(e.gpus, e.bytes), number: true, level: 2},
    {head: "Why", text: (e) => e.why, long: true},
  ],
};

function makeBar() {
  const bar = make("span", {class: "bar-box", "aria-hidden": "true"});
  bar.used = make("i");
  bar.reserved = make("b");
  bar.append(bar.used, bar.reserved);
  return bar;
}

function showBar(bar, parts) {
  bar.hidden = !parts;
  if (!parts) return;
  const [used, all, reserved] = parts;
  bar.used.style.width = `${percent(used, all)}%`;
  bar.reserved.hidden = !reserved;
  bar.reserved.style.left = `${percent(reserved, all)}%`;
  put(bar, "data-full", used >= all);
}

export class Table {
  constructor(place, {caption, none, key, columns}) {
    Object.assign(this, {key, columns, most: PAGE});
    const head = make("tr", {}, ...columns.map((column) =>
      make("th", {scope: "col", class: this.classOf(column)}, column.head)));
    this.body = make("tbody");
    this.table = make("table", {}, make("caption", {class: "unseen"}, caption),
                      make("thead", {}, head), this.body);
    this.none = make("p", {class: "none quiet"}, none);
    this.count = make("p", {class: "quiet small"});
    this.more = make("button", {type: "button"}, "Show more");
    this.more.addEventListener("click", () => this.showMore());
    this.foot = make("div", {class: "table-foot"}, this.count, this.more);
    place.append(make("div", {class: "scroll"}, this.table), this.none, this.foot);
  }

  classOf(column) {
    return [column.number ? "number" : "", column.long ? "long" : "",
            `level${column.level ?? 1}`].filter(Boolean).join(" ");
  }

  showMore() {
    const before = this.body.children.length;
    this.most += 4 * PAGE;
    this.show(this.rows, this.now);
    // Where the button was the last one that could be reached, focus would be lost with it.
    if (this.more.hidden) {
      const row = this.body.children[before];
      put(row, "tabindex", "-1");
      row?.focus();
    }
  }

  show(rows, now) {
    this.rows = rows;
    this.now = now;
    const shown = rows.slice(0, this.most);
    this.table.hidden = rows.length === 0;
    this.none.hidden = rows.length !== 0;
    this.foot.hidden = rows.length <= PAGE;
    this.more.hidden = shown.length === rows.length;
    say(this.count, `${number(shown.length)} of ${many(rows.length, "row")}`);
    sync(this.body, shown, this.key, () => this.makeRow(), (tr, row) => this.showRow(tr, row, now));
  }

  makeRow() {
    const tr = make("tr");
    tr.parts = this.columns.map((column, i) => {
      const cell = make(i === 0 ? "th" : "td",
                        {scope: i === 0 ? "row" : null, class: this.classOf(column)});
      const text = make(column.code ? "code" : "span", {class: "text"});
      const note = column.note ? unseen("") : null;
      const bar = column.bar ? makeBar() : null;
      cell.append(...[text, note, bar].filter(Boolean));
      tr.append(cell);
      return {cell, text, note, bar};
    });
    return tr;
  }

  showRow(tr, row, now) {
    this.columns.forEach((column, i) => {
      const {cell, text, note, bar} = tr.parts[i];
      const words = column.text(row, now);
      say(text, words);
      put(text, "data-nothing", NOTHING.has(words));
      if (column.long) put(text, "title", words);
      if (column.title) put(text, "title", column.title(row));
      if (column.indent) put(cell, "data-depth", Math.min(column.indent(row), 7));
      if (column.alarm) put(cell, "data-alarm", column.alarm(row));
      if (note) say(note, column.note(row));
      if (bar) showBar(bar, column.bar(row));
    });
  }
}
