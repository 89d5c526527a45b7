#include "scheduler/simulation/workload.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace warpline::simulation {
namespace {

// Numbers that are the same with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}

  // splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In [0, 1).
  double Fraction() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

struct Size {
  double percent;
  uint32_t gpus;
  uint32_t members;  // 0 for a part of a device.
};

constexpr Size kSizes[] = {{30.0, 1, 0}, {45.0, 1, 1}, {7.0, 2, 1}, {7.0, 4, 1},  {7.0, 8, 1},
                           {2.0, 8, 2},  {1.2, 8, 4},  {0.5, 8, 8}, {0.2, 8, 16}, {0.1, 8, 32}};

// Of the pods that want a part of a device: how large it is, in thousandths.
struct Part {
  double percent;
  uint32_t milli;
};

constexpr Part kParts[] = {{35.0, 810}, {24.4, 470}, {10.7, 320}, {8.2, 650}, {4.5, 230},
                           {4.2, 460},  {2.4, 590},  {2.4, 160},  {2.3, 550}, {2.0, 220},
                           {1.5, 370},  {0.8, 110},  {1.6, 500}};

struct Quantile {
  double part;
  double seconds;
};

constexpr Quantile kLifetimes[] = {{0, 10},        {0.05, 48},       {0.10, 61},    {0.25, 131},
                                   {0.50, 1186},   {0.75, 3342},     {0.90, 12860}, {0.95, 49969},
                                   {0.99, 287333}, {0.999, 1361908}, {1, 2000000}};

template <typename Row, size_t kRows>
const Row& Draw(const Row (&rows)[kRows], Random* random) {
  double left = random->Fraction() * 100;
  for (const Row& row : rows) {
    left -= row.percent;
    if (left < 0) return row;
  }
  return rows[0];
}

double DrawLifetime(Random* random) {
  const double part = random->Fraction();
  size_t next = 1;
  while (next + 1 < std::size(kLifetimes) && kLifetimes[next].part <= part) ++next;
  const Quantile& low = kLifetimes[next - 1];
  const Quantile& high = kLifetimes[next];
  const double within = (part - low.part) / (high.part - low.part);
  return low.seconds * std::pow(high.seconds / low.seconds, within);
}

// At night a third of what there is by day.
double ActivityAt(double seconds) {
  constexpr double kDay = 86400;
  constexpr double kTurn = 6.283185307179586;
  return 1.0 - 0.5 * std::cos(kTurn * seconds / kDay);
}

}  // namespace

Workload DrawWorkload(const WorkloadOptions& options) {
  Random random(options.seed);
  Workload workload;
  for (uint32_t o = 0; o < 10; ++o) {
    workload.organisations.push_back({absl::StrCat("org", o), 1 + o % 3});
    for (uint32_t t = 0; t < 8; ++t) {
      workload.teams.push_back({absl::StrCat("org", o, "-team", t), o, 1 + t % 2});
    }
  }
  const auto draw = [&] {
    Session session;
    const Size& size = Draw(kSizes, &random);
    session.gpus = size.gpus;
    session.members = std::min(std::max(size.members, 1u), options.most_members);
    if (size.members == 0) session.milli = Draw(kParts, &random).milli;
    session.lasts_s = DrawLifetime(&random);
    // Some teams ask for much more than others, whatever their weights.
    const double skew = random.Fraction();
    session.tenant =
        static_cast<uint32_t>(skew * skew * static_cast<double>(workload.teams.size()));
    return session;
  };
  std::vector<Session> arriving;
  double wanted = 0;
  for (size_t i = 0; i < options.sessions; ++i) {
    arriving.push_back(draw());
    wanted += arriving.back().devices() * arriving.back().lasts_s;
  }
  const double mean_gap =
      wanted / static_cast<double>(options.sessions) / (options.load * options.devices);
  // Arrivals by day are closer than by night.
  const auto gap = [&](double now) {
    return -std::log(1 - random.Fraction()) * mean_gap / ActivityAt(now);
  };
  for (double now = -kLifetimes[std::size(kLifetimes) - 1].seconds; now < 0; now += gap(now)) {
    Session session = draw();
    session.lasts_s += now;
    if (session.lasts_s > 0) workload.sessions.push_back(session);
  }
  workload.running = workload.sessions.size();
  double now = 0;
  for (Session& session : arriving) {
    now += gap(now);
    session.arrives_s = now;
    workload.sessions.push_back(session);
  }
  return workload;
}

}  // namespace warpline::simulation
