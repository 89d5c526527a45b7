// The panel about one GPU: what it is, and who has leases on it.
import {make, put, say} from "./dom.js";
import {lasting, part, percent} from "./format.js";
import {stateName} from "./map.js";
import {LEASES_OF_A_GPU, Table} from "./tables.js";

export class Place {
  // Calls `closed()` when the viewer closes it.
  constructor(panel, closed) {
    this.panel = panel;
    this.key = "";
    this.heading = make("h3", {id: "place-heading", tabindex: "-1"});
    const close = make("button", {type: "button", class: "close"}, "Close");
    close.addEventListener("click", closed);
    panel.addEventListener("keydown", (event) => { if (event.key === "Escape") closed(); });
    this.facts = make("dl", {class: "facts"});
    const leases = make("div");
    this.table = new Table(leases, LEASES_OF_A_GPU);
    panel.append(make("div", {class: "heading"}, this.heading, close), this.facts, leases);
  }

  open(gpu) {
    this.key = gpu.key;
    this.panel.hidden = false;
    this.heading.focus();
  }

  close() {
    this.key = "";
    this.panel.hidden = true;
  }

  // `gpu` is undefined when it is not there any more.
  show(gpu, own, now) {
    if (!this.key) return;
    if (!gpu) {
      this.close();
      return;
    }
    say(this.heading, `${gpu.host.name}, GPU ${gpu.n}`);
    const facts = [
      ["Device", gpu.model || "not known"],
      ["UUID", gpu.uuid],
      [own ? "Your leases" : "Leased", `${part(gpu.leased, gpu.bytes)}, ${percent(gpu.leased, gpu.bytes)} %`],
    ];
    if (gpu.sm) facts.push(["Processors set aside", `${gpu.sm} %`]);
    const state = stateName(gpu.state);
    if (state) facts.push(["Server", state]);
    if (gpu.host.heard_ms) facts.push(["Last heard", `${lasting(now - gpu.host.heard_ms)} ago`]);
    if (gpu.host.reason) facts.push(["Reason", gpu.host.reason]);
    if (gpu.host.drained_ms) facts.push(["Leases end in", lasting(gpu.host.drained_ms - now)]);
    this.facts.replaceChildren(...facts.flatMap(([name, value]) =>
      [make("dt", {}, name), make("dd", {}, value)]));
    put(this.facts, "data-state", gpu.state);
    this.table.show(gpu.leases, now);
  }
}
