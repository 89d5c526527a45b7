// Puts the page together: signing in, what is shown, and how it is kept up to date.
import {problemsOf} from "./attention.js";
import {byId, make, put, say, sync} from "./dom.js";
import {bytes, lasting, many, number, part, percent, timeOf} from "./format.js";
import {PoolMap} from "./map.js";
import {choose, understand} from "./model.js";
import {Place} from "./place.js";
import {Source} from "./source.js";
import {ENDED, LEASES, SLICES, TENANTS, Table, WAITING} from "./tables.js";

const KEPT = "warpline-credential";
const MOST_PROBLEMS = 12;
const tables = {
  tenants: new Table(byId("tenants"), TENANTS), waiting: new Table(byId("waiting"), WAITING),
  leases: new Table(byId("leases"), LEASES), slices: new Table(byId("slices"), SLICES),
  ended: new Table(byId("ended"), ENDED),
};
const map = new PoolMap(byId("map"), (gpu) => { place.open(gpu); show(); });
const place = new Place(byId("place"), closePlace);

let source = null;
let pool = null;       // As last told.
let ahead = 0;         // The scheduler's clock before this one.
let link = {state: "wait"};
let problemsBefore = 0;

const now = () => Date.now() + ahead;

function closePlace() {
  place.close();
  map.select("");
  map.focusHere();
}

// --- Signing in and out.

function signIn(credential) {
  source?.end();
  source = new Source(credential, {
    told(data, at) {
      ahead = at - Date.now();
      const first = pool === null;
      pool = understand(data);
      show();
      if (first) opened();
    },
    linked(state, details) {
      const before = link.state;
      link = {state, ...details, told: state === "live" ? details.at : link.told};
      showLink();
      if (pool && before !== state && before !== "wait") {
        announce(state === "live" ? "Connected again" : "The scheduler does not answer; what is shown is old");
      }
      if (!pool && state === "lost") {
        say(byId("sign-in-error"), link.why === "busy" ? "Too many credentials were tried. Trying again…"
                                                       : "The scheduler does not answer. Trying again…");
      }
    },
    refused() {
      signOut("The scheduler does not know this credential.");
    },
  });
}

function opened() {
  byId("sign-in").hidden = true;
  for (const id of ["pool", "session", "sections"]) byId(id).hidden = false;
  byId("credential").value = "";
  byId("content").focus({preventScroll: true});
  performance.mark("warpline-usable");
}

function signOut(why = "") {
  source?.end();
  source = pool = null;
  link = {state: "wait"};
  problemsBefore = 0;
  sessionStorage.removeItem(KEPT);
  place.close();
  // Nothing of what one viewer saw is left for the next.
  for (const table of Object.values(tables)) table.show([], 0);
  map.show([], false);
  for (const id of ["totals", "problems"]) sync(byId(id), [], String, null, null);
  for (const id of ["viewer", "banner", "foot", "announcer"]) say(byId(id), "");
  byId("find").value = "";
  for (const id of ["pool", "session", "sections"]) byId(id).hidden = true;
  document.title = "Warpline pool";
  byId("sign-in").hidden = false;
  say(byId("sign-in-error"), why);
  byId("credential").focus();
}

// --- Showing.

const announce = (text) => say(byId("announcer"), text);

function totalsOf({totals, operator, tenants, viewer}) {
  const own = tenants.find((tenant) => tenant.name === viewer);
  const memory = operator ? {used: totals.leased, all: totals.bytes}
                          : {used: own?.used ?? 0, all: own?.limit ?? 0};
  return [
    operator
      ? {name: "GPUs", value: number(totals.gpusUp), note: totals.gpusUp === totals.gpus
          ? `${many(totals.hosts, "host")}, ${number(totals.whole)} wholly free`
          : `of ${number(totals.gpus)}; ${many(totals.lost, "host")} lost`}
      : {name: "GPUs", value: number(totals.gpus), note: `on ${many(totals.hosts, "host")}`},
    {name: "Memory leased", value: memory.all ? `${percent(memory.used, memory.all)} %` : bytes(memory.used),
     note: memory.all ? part(memory.used, memory.all) : "no limit", bar: memory},
    {name: "Leases", value: number(totals.leases), note: many(totals.sessions, "session")},
    {name: "Waiting", value: number(totals.waiting), note: totals.waiting ? "see the queue" : "nobody"},
  ];
}

function makeTotal() {
  const box = make("div");
  box.name = make("dt");
  box.value = make("dd", {class: "value"});
  box.bar = make("dd", {class: "bar-box", "aria-hidden": "true"}, make("i"));
  box.note = make("dd", {class: "quiet small"});
  box.append(box.name, box.value, box.note, box.bar);
  return box;
}

function showTotals() {
  sync(byId("totals"), totalsOf(pool), (total) => total.name, makeTotal, (box, total) => {
    say(box.name, total.name);
    say(box.value, total.value);
    say(box.note, total.note);
    box.bar.hidden = !total.bar?.all;
    if (total.bar) box.bar.firstChild.style.width = `${percent(total.bar.used, total.bar.all)}%`;
  });
}

function showProblems() {
  const problems = problemsOf(pool, now());
  byId("attention").hidden = problems.length === 0;
  const shown = problems.slice(0, MOST_PROBLEMS).map((problem, i) => ({...problem, key: String(i)}));
  const left = problems.length - shown.length;
  if (left) shown.push({key: "more", kind: "odd", sign: "…", text: `and ${number(left)} more`});
  sync(byId("problems"), shown, (problem) => problem.key,
       () => make("li", {}, make("span", {class: "sign", "aria-hidden": "true"}), make("span")),
       (item, problem) => {
         put(item, "data-kind", problem.kind);
         say(item.firstChild, problem.sign);
         say(item.lastChild, problem.text);
       });
  const bad = problems.filter((problem) => problem.kind === "bad");
  if (bad.length > problemsBefore) announce(bad[0].text);
  problemsBefore = bad.length;
}

function showLink() {
  put(byId("link"), "data-state", link.state);
  const lost = link.state === "lost";
  say(byId("link-text"), link.state === "live" ? "Live" : lost ? "No answer" : "Asking");
  const banner = byId("banner");
  const texts = [];
  if (lost && pool) {
    const why = link.why === "no state" ? "The scheduler cannot read its state" : "The scheduler does not answer";
    const next = Math.max(0, Math.round((link.retry - Date.now()) / 1000));
    texts.push(`${why}. What is shown is from ${timeOf(link.told)}, ${lasting(Date.now() - link.told)} ago. ` +
               `Leases and sessions go on by themselves. Asking again ${next ? `in ${next} s` : "now"}.`);
  }
  if (pool?.follower) {
    texts.push((pool.leader ? `This scheduler does not lead; ${pool.leader} does. ` : "No scheduler leads at the moment. ") +
               "Leases and tenants are shown; sessions, the queue and whether hosts are up are not known here.");
  }
  banner.hidden = texts.length === 0;
  put(banner, "data-kind", lost ? "bad" : "odd");
  say(banner, texts.join(" "));
  put(byId("pool"), "data-old", lost);
}

function show() {
  if (!pool) return;
  const at = now();
  const chosen = choose(pool, byId("find").value, byId("only").value);
  const own = !pool.operator;
  say(byId("viewer"), own ? `Tenant ${pool.viewer}` : "Operator");
  document.title = `${own ? pool.viewer : "Pool"}: ${many(pool.totals.leases, "lease")}` +
    (pool.totals.waiting ? `, ${number(pool.totals.waiting)} waiting` : "") + " · Warpline";
  showTotals();
  showProblems();
  showLink();
  map.show(chosen.hosts, own);
  say(byId("map-count"), chosen.hosts.length === pool.hosts.length ? (own ? "Hosts with your leases." : "")
      : `${number(chosen.hosts.length)} of ${many(pool.hosts.length, "host")}.`);
  place.show(pool.gpus.find((gpu) => gpu.key === place.key), own, at);
  tables.tenants.show(pool.tenants, at);
  tables.waiting.show([...pool.waiting].sort((a, b) => a.position - b.position || a.number - b.number), at);
  tables.leases.show(chosen.leases, at);
  const bySlice = Map.groupBy(pool.leases, (lease) => lease.slice);
  tables.slices.show(pool.slices.map((slice) => ({...slice, leases: bySlice.get(slice.name)?.length ?? 0})), at);
  tables.ended.show(pool.ended, at);
  say(byId("foot"), pool.epoch ? `Term ${pool.epoch} of the schedulers.` : "");
}

// --- Events.

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  const credential = byId("credential").value.trim();
  say(byId("sign-in-error"), "");
  if (!/^[\x21-\x7e]+$/.test(credential)) {
    say(byId("sign-in-error"), "A credential has letters and digits alone.");
    return;
  }
  if (byId("keep").checked) sessionStorage.setItem(KEPT, credential);
  signIn(credential);
});
byId("sign-out").addEventListener("click", () => signOut());
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("input", () => { show(); announceCount(); });
let counting = 0;
function announceCount() {
  clearTimeout(counting);
  counting = setTimeout(() => pool && announce(`${byId("map").children.length} of ${many(pool.hosts.length, "host")}`), 1000);
}
// Times go on while nothing else changes.
setInterval(() => { if (pool && !document.hidden) show(); }, 5000);
setInterval(() => { if (link.state === "lost") showLink(); }, 1000);

const kept = sessionStorage.getItem(KEPT);
if (kept) signIn(kept);
