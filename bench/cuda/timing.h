// Repeats a piece of work, takes the median, and prints figures as JSON lines. Not thread-safe.
#ifndef WARPLINE_BENCH_CUDA_TIMING_H_
#define WARPLINE_BENCH_CUDA_TIMING_H_

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace bench {

inline double NowUs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

// Returns the median time of one run of `work` in microseconds, after `warm_up` runs that do not
// count. `between` runs before every run and is not timed.
template <typename Work, typename Between>
double MedianUs(int warm_up, int repeats, Work work, Between between) {
  std::vector<double> times;
  for (int i = -warm_up; i < std::max(repeats, 1); ++i) {
    between();
    const double start = NowUs();
    work();
    const double end = NowUs();
    if (i >= 0) times.push_back(end - start);
  }
  std::sort(times.begin(), times.end());
  const size_t middle = times.size() / 2;
  return times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
}

template <typename Work>
double MedianUs(int warm_up, int repeats, Work work) {
  return MedianUs(warm_up, repeats, work, [] {});
}

// Prints one figure at once, so that a later failure does not lose it.
inline void Print(const char* name, double value, const char* unit) {
  std::printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", name, value, unit);
  std::fflush(stdout);
}

}  // namespace bench

#endif  // WARPLINE_BENCH_CUDA_TIMING_H_
