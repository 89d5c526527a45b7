// What the page shows, worked out of what the scheduler says (/pool.json).

const WAITS_LONG_MS = 10 * 60 * 1000;
const byName = (a, b) => a.name.localeCompare(b.name, "en", {numeric: true});

function hostsOf(data) {
  return data.servers.map((server) => ({
    ...server, leases: [], leased: 0,
    bytes: server.gpus.reduce((sum, gpu) => sum + gpu.bytes, 0),
    gpus: server.gpus.map((gpu) => ({
      ...gpu, key: `${server.name} ${gpu.uuid}`, host: server, state: server.state, leases: [],
      leased: 0, sm: 0})),
  })).sort(byName);
}

// Gives hosts and GPUs their leases.
function place(hosts, leases) {
  const known = new Map(hosts.map((host) =>
    [host.name, {host, gpus: new Map(host.gpus.map((gpu) => [gpu.n, gpu]))}]));
  for (const lease of leases) {
    const at = known.get(lease.server);
    if (!at) continue;
    at.host.leases.push(lease);
    at.host.leased += lease.bytes * lease.gpus.length;
    for (const n of lease.gpus) {
      const gpu = at.gpus.get(n);
      if (!gpu) continue;
      gpu.leases.push(lease);
      gpu.leased += lease.bytes;
      gpu.sm += lease.sm_percent ?? 0;
    }
  }
}

// In the order of the tree, with what each and those below it have.
function tenantsOf(data) {
  const all = new Map(data.tenants.map((tenant) => [tenant.name, {
    ...tenant, below: [], depth: 0, used: 0, leases: 0, sessions: 0, waiting: 0}]));
  const top = [];
  for (const tenant of all.values()) {
    (all.get(tenant.parent)?.below ?? top).push(tenant);
  }
  for (const lease of data.leases) {
    const tenant = all.get(lease.tenant);
    if (!tenant) continue;
    tenant.used += lease.bytes * lease.gpus.length;
    tenant.leases += 1;
    tenant.sessions += lease.sessions ?? 0;
  }
  for (const waiting of data.waiting) {
    const tenant = all.get(waiting.tenant);
    if (tenant) tenant.waiting += waiting.asking ?? 1;
  }
  const order = [];
  const visit = (tenant, depth) => {
    tenant.depth = depth;
    order.push(tenant);
    for (const child of tenant.below.sort(byName)) {
      visit(child, depth + 1);
      for (const sum of ["used", "leases", "sessions", "waiting"]) tenant[sum] += child[sum];
    }
  };
  for (const tenant of top.sort(byName)) visit(tenant, 0);
  return order;
}

export function understand(data) {
  const hosts = hostsOf(data);
  place(hosts, data.leases);
  const gpus = hosts.flatMap((host) => host.gpus);
  const up = gpus.filter((gpu) => gpu.state !== "lost");
  const sum = (items, of) => items.reduce((total, item) => total + of(item), 0);
  return {
    operator: data.operator, viewer: data.tenant, follower: data.follower ?? false,
    leader: data.leader ?? "", epoch: data.epoch ?? 0,
    hosts, gpus, leases: data.leases, slices: data.slices, ended: data.ended,
    tenants: tenantsOf(data),
    waiting: data.waiting,
    totals: {
      hosts: hosts.length, lost: hosts.filter((host) => host.state === "lost").length,
      gpus: gpus.length, gpusUp: up.length, whole: up.filter((gpu) => !gpu.leases.length).length,
      bytes: sum(up, (gpu) => gpu.bytes), leased: sum(up, (gpu) => Math.min(gpu.leased, gpu.bytes)),
      leases: data.leases.length, sessions: sum(data.leases, (lease) => lease.sessions ?? 0),
      waiting: sum(data.waiting, (waiting) => waiting.asking ?? 1),
    },
  };
}

export const hasTrouble = (host) => !["up", "unknown"].includes(host.state) || host.cordoned;

export const waitsLong = (pool, now) =>
  pool.waiting.filter((waiting) => now - waiting.since_ms > WAITS_LONG_MS);

// What of the pool the viewer looks for: `words` in names, programs and GPUs, and the kind of hosts.
export function choose(pool, words, only) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (texts) => {
    const text = texts.join("\n").toLowerCase();
    return wanted.every((word) => text.includes(word));
  };
  const ofLease = (lease) =>
    [lease.id, lease.tenant, lease.server, lease.program ?? "", lease.slice ?? ""];
  const kinds = {
    all: () => true,
    used: (host) => host.leases.length > 0,
    free: (host) => host.state === "up" && host.gpus.some((gpu) => !gpu.leases.length),
    trouble: hasTrouble,
  };
  return {
    hosts: pool.hosts.filter((host) => kinds[only](host) && (!wanted.length ||
      has([host.name, host.state, ...host.gpus.flatMap((gpu) => [gpu.uuid, gpu.model])]) ||
      host.leases.some((lease) => has(ofLease(lease))))),
    leases: wanted.length ? pool.leases.filter((lease) => has(ofLease(lease))) : pool.leases,
  };
}
