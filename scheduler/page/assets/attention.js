// What an operator, or a tenant, has to know of first.
import {lasting, many} from "./format.js";
import {waitsLong} from "./model.js";

// Texts with a sign and a kind each, the worst first.
export function problemsOf(pool, now) {
  const problems = [];
  const add = (kind, sign, text) => problems.push({kind, sign, text});
  for (const host of pool.hosts) {
    if (host.state === "lost") {
      const ago = host.heard_ms ? `; last heard ${lasting(now - host.heard_ms)} ago` : "";
      add("bad", "✕", `${host.name} is lost: ${many(host.gpus.length, "GPU")}, ${many(host.leases.length, "lease")}${ago}`);
    }
  }
  for (const host of pool.hosts) {
    if (!host.cordoned && host.state !== "draining") continue;
    const words = host.drained_ms ? `is being drained; its ${many(host.leases.length, "lease")} end in ${lasting(host.drained_ms - now)}`
      : host.state === "draining" ? "is shutting down when its sessions end" : "gets no new leases";
    add("odd", host.drained_ms ? "▾" : "▪", `${host.name} ${words}${host.reason ? `: ${host.reason}` : ""}`);
  }
  // Those of a host that is drained are told with it.
  const drained = new Set(pool.hosts.filter((host) => host.drained_ms).map((host) => host.name));
  const ending = pool.leases.filter((lease) => lease.ending_ms && !drained.has(lease.server));
  for (const lease of ending.slice(0, 5)) {
    add("odd", "◷", `A lease of ${lease.tenant} on ${lease.server} ends in ${lasting(lease.ending_ms - now)}: ${lease.ending_why}`);
  }
  if (ending.length > 5) add("odd", "◷", `${many(ending.length - 5, "more lease")} end soon`);
  const late = waitsLong(pool, now);
  if (late.length) {
    const longest = Math.max(...late.map((waiting) => now - waiting.since_ms));
    add("odd", "◷", `${many(late.length, "request has", "requests have")} waited for more than 10 min, the longest for ${lasting(longest)}`);
  }
  return problems;
}
