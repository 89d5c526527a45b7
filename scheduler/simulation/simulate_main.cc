// simulate: the scheduler's placement on a virtual clock. `./dev simulate` builds and runs it.
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "scheduler/simulation/simulation.h"
#include "scheduler/simulation/workload.h"

ABSL_FLAG(uint32_t, servers, 1250, "Servers, of eight devices each.");
ABSL_FLAG(uint32_t, sessions, 100000, "Sessions.");
ABSL_FLAG(double, load, 0.95,
          "What they want together, of all devices until the last one arrives.");
ABSL_FLAG(uint64_t, seed, 1, "Of the sessions.");
ABSL_FLAG(std::string, placement, "pack", "pack or spread.");
ABSL_FLAG(absl::Duration, patience, absl::Minutes(10),
          "After which wait devices are set aside for a request.");
ABSL_FLAG(absl::Duration, share_epoch, absl::ZeroDuration(),
          "How often what teams have beyond their shares goes to those who wait; 0 for never.");
ABSL_FLAG(absl::Duration, restart, absl::Minutes(2),
          "What a session has to do again whose lease was taken back.");
ABSL_FLAG(std::string, decisions, "",
          "A folder for the decisions, to replay them; empty for none.");
ABSL_FLAG(std::string, samples, "", "A file for the samples and waits as CSV; empty for none.");

namespace warpline::simulation {
namespace {

int Complain(const std::string& text) {
  std::fprintf(stderr, "simulate: %s\n", text.c_str());
  return 1;
}

void Write(std::FILE* file, const Figures& figures) {
  for (const auto& [size, waits] : figures.waits) {
    std::fprintf(file, "wait,%s,%zu,%zu,%.1f,%.1f,%.1f,%.1f\n", size.c_str(), waits.sessions,
                 waits.waited, waits.mean_s, waits.p50_s, waits.p99_s, waits.most_s);
  }
}

int Run() {
  const std::string placement = absl::GetFlag(FLAGS_placement);
  if (placement != "pack" && placement != "spread") {
    return Complain("--placement=" + placement + ": expected pack or spread");
  }
  WorkloadOptions workload;
  workload.seed = absl::GetFlag(FLAGS_seed);
  workload.sessions = absl::GetFlag(FLAGS_sessions);
  workload.load = absl::GetFlag(FLAGS_load);
  SimulationOptions options;
  options.servers = absl::GetFlag(FLAGS_servers);
  options.order = placement == "pack" ? placement::Order::kPack : placement::Order::kSpread;
  options.patience = absl::GetFlag(FLAGS_patience);
  options.epoch = absl::GetFlag(FLAGS_share_epoch);
  options.restart = absl::GetFlag(FLAGS_restart);
  options.decisions = absl::GetFlag(FLAGS_decisions);
  if (options.servers < 1 || options.servers > 60000 || workload.sessions < 1 ||
      !(workload.load > 0.01 && workload.load < 100)) {
    return Complain(
        "expected 1 to 60000 --servers, some --sessions, and a --load from 0.01 to 100");
  }
  workload.devices = options.servers * options.devices_each;
  // A gang that the pool cannot hold would wait for ever.
  while (workload.most_members > options.servers) workload.most_members /= 2;
  const std::string path = absl::GetFlag(FLAGS_samples);
  std::FILE* const file = path.empty() ? nullptr : std::fopen(path.c_str(), "w");
  if (!path.empty() && file == nullptr) return Complain("cannot write " + path);
  if (file != nullptr) std::fputs("sample,hours,used,bound,waiting\n", file);
  Simulation simulation(options, DrawWorkload(workload));
  size_t shown = 0;
  const auto figures = simulation.Run([&](const Sample& sample) {
    if (file != nullptr) {
      std::fprintf(file, "sample,%.2f,%.4f,%.4f,%u\n", sample.hours, sample.used, sample.bound,
                   sample.waiting);
    }
    if (shown++ % 12 != 0) return;
    std::printf(
        "%6.1f h: %zu sessions arrived, %.1f %% of the devices in use (bound %.1f %%), "
        "%u requests wait\n",
        sample.hours, sample.arrived, 100 * sample.used, 100 * sample.bound, sample.waiting);
    std::fflush(stdout);
  });
  if (!figures.ok()) return Complain(std::string(figures.status().message()));
  if (file != nullptr) {
    Write(file, *figures);
    std::fclose(file);
  }
  for (const auto& [size, waits] : figures->waits) {
    std::printf(
        "wait %-4s: %zu of %zu sessions waited, mean %.0f s, p50 %.0f s, p99 %.0f s, "
        "most %.0f s\n",
        size.c_str(), waits.waited, waits.sessions, waits.mean_s, waits.p50_s, waits.p99_s,
        waits.most_s);
  }
  const Waits& all = figures->waits.at("all");
  std::printf(
      "simulate: %u GPUs, %zu sessions in %.1f days: %.0f placements/s on one core, ask p50 %.1f "
      "us "
      "p99 %.1f us, ticks %.2f s; %.1f %% in use, fragmentation %.2f %% below best-fit, Jain %.3f; "
      "waits mean %.0f s p99 %.0f s; finish time of a team's sessions by their running time: mean "
      "%.3f, most %.3f; %zu leases taken back, %.0f device hours repeated\n",
      workload.devices, figures->sessions, figures->days, figures->placements_per_s(),
      figures->p50_us, figures->p99_us, figures->ticking_s, 100 * figures->used,
      100 * figures->fragmentation, figures->fairness, all.mean_s, all.p99_s, figures->mean_behind,
      figures->most_behind, figures->taken_back, figures->repeated_hours);
  return 0;
}

}  // namespace
}  // namespace warpline::simulation

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("runs the scheduler's placement on a virtual clock");
  absl::ParseCommandLine(argc, argv);
  return warpline::simulation::Run();
}
