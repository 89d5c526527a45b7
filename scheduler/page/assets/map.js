// The map of hosts and their GPUs: a grid of which one cell can be reached by Tab, and the others
// from there by the arrow keys.
import {make, put, say, sync} from "./dom.js";
import {many, part, percent} from "./format.js";

const STATES = {
  up: "", unknown: "not known here", lost: "lost", cordoned: "cordoned", draining: "draining",
};
// Besides colour and pattern.
const SIGNS = {lost: "✕", cordoned: "▪", draining: "▾", unknown: "?"};

export const stateName = (state) => STATES[state] ?? state;

function describe(gpu, own) {
  const tenants = new Set(gpu.leases.map((lease) => lease.tenant));
  const whose = own ? "your leases have" : "leased";
  const used = gpu.leases.length
    ? `${whose} ${part(gpu.leased, gpu.bytes)}, ${many(gpu.leases.length, "lease")}` +
      (tenants.size > 1 ? ` of ${tenants.size} tenants` : ` of ${[...tenants][0]}`)
    : `nothing leased of ${part(0, gpu.bytes).slice(5)}`;
  const state = stateName(gpu.state);
  return `${gpu.host.name} GPU ${gpu.n}: ${used}${state ? `, server ${state}` : ""}`;
}

export class PoolMap {
  // Calls `chosen(gpu)` for a GPU that is to be shown.
  constructor(grid, chosen) {
    this.grid = grid;
    this.chosen = chosen;
    this.here = "";  // The key of the one that Tab reaches.
    this.selected = "";
    grid.addEventListener("click", (event) => this.open(event.target.closest(".gpu")));
    grid.addEventListener("keydown", (event) => this.pressed(event));
    grid.addEventListener("focusin", (event) => this.moveTo(event.target.closest(".gpu")));
  }

  show(hosts, own) {
    this.own = own;
    const keys = new Set(hosts.flatMap((host) => host.gpus.map((gpu) => gpu.key)));
    if (!keys.has(this.here)) this.here = keys.values().next().value ?? "";
    sync(this.grid, hosts, (host) => host.name, () => this.makeHost(),
         (row, host) => this.showHost(row, host));
    put(this.grid, "data-size", hosts.length > 40 ? "many" : hosts.length > 12 ? "some" : "few");
  }

  makeHost() {
    const row = make("div", {role: "row", class: "host"});
    row.head = make("div", {role: "rowheader", class: "host-head"});
    row.name = make("span", {class: "host-name"});
    row.state = make("span", {class: "host-state"});
    row.used = make("span", {class: "host-used quiet"});
    row.head.append(row.name, row.state, row.used);
    row.append(row.head);
    row.gpus = make("div", {role: "presentation", class: "gpus"});
    row.append(row.gpus);
    return row;
  }

  showHost(row, host) {
    put(row, "data-state", host.state);
    say(row.name, host.name);
    put(row.name, "title", host.name);
    const sign = SIGNS[host.state] ?? "";
    say(row.state, sign ? `${sign} ${stateName(host.state)}` : "");
    say(row.used, this.own ? "" : part(host.leased, host.bytes));
    // A tenant sees some of the host's GPUs, where they are among the others.
    const last = Math.max(0, ...host.gpus.map((gpu) => gpu.n));
    row.gpus.style.setProperty("--columns", this.own ? Math.max(8, last + 1) : host.gpus.length);
    sync(row.gpus, host.gpus, (gpu) => gpu.key, () => this.makeGpu(),
         (cell, gpu) => this.showGpu(cell, gpu));
  }

  makeGpu() {
    const cell = make("div", {role: "gridcell", class: "gpu", tabindex: "-1"});
    cell.fill = make("i");
    cell.append(cell.fill);
    return cell;
  }

  showGpu(cell, gpu) {
    cell.gpu = gpu;
    put(cell, "data-state", gpu.state);
    put(cell, "data-free", gpu.leases.length === 0);
    put(cell, "tabindex", gpu.key === this.here ? "0" : "-1");
    put(cell, "aria-selected", gpu.key === this.selected ? "true" : "false");
    const words = describe(gpu, this.own);
    put(cell, "aria-label", words);
    put(cell, "title", words);
    cell.style.gridColumn = this.own ? gpu.n + 1 : "auto";
    const height = `${percent(gpu.leased, gpu.bytes)}%`;
    if (cell.fill.style.height !== height) cell.fill.style.height = height;
  }

  moveTo(cell) {
    if (!cell || cell.gpu.key === this.here) return;
    for (const old of this.grid.querySelectorAll('.gpu[tabindex="0"]')) put(old, "tabindex", "-1");
    this.here = cell.gpu.key;
    put(cell, "tabindex", "0");
  }

  select(key) {
    this.selected = key;
    for (const cell of this.grid.querySelectorAll(".gpu")) {
      put(cell, "aria-selected", cell.gpu.key === key ? "true" : "false");
    }
  }

  open(cell) {
    if (!cell) return;
    this.moveTo(cell);
    this.select(cell.gpu.key);
    this.chosen(cell.gpu);
  }

  focusHere() {
    this.grid.querySelector('.gpu[tabindex="0"]')?.focus();
  }

  pressed(event) {
    const cell = event.target.closest(".gpu");
    if (!cell || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.open(cell);
      return;
    }
    const row = [...cell.parentElement.children];
    const at = row.indexOf(cell);
    const host = cell.closest(".host");
    const inRow = (other) => {
      const cells = other?.querySelectorAll(".gpu");
      return cells?.[Math.min(at, cells.length - 1)];
    };
    const targets = {
      ArrowLeft: () => row[at - 1], ArrowRight: () => row[at + 1],
      Home: () => row[0], End: () => row.at(-1),
      ArrowUp: () => inRow(host.previousElementSibling),
      ArrowDown: () => inRow(host.nextElementSibling),
      PageUp: () => inRow(this.grid.firstElementChild),
      PageDown: () => inRow(this.grid.lastElementChild),
    };
    const target = targets[event.key]?.();
    if (!targets[event.key]) return;
    event.preventDefault();
    target?.focus();
  }
}
