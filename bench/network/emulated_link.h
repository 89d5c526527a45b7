// A link between two TUN devices, which forwards IP packets with the delay, rate and loss of a real
// one.
//
//   auto link = EmulatedLink(options, std::move(here), std::move(there));
//   LineSettings settings = options.line;
//   settings.down = true;
//   link.Set(settings);
#ifndef WARPLINE_BENCH_NETWORK_EMULATED_LINK_H_
#define WARPLINE_BENCH_NETWORK_EMULATED_LINK_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "bench/network/packet_line.h"
#include "common/unique_fd.h"

namespace warpline {

struct LinkOptions {
  LineSettings line;  // For each direction.
  uint64_t seed = 1;
  // TCP connections that were idle for this long are forgotten: see FlowMemory. 0: none is.
  std::chrono::nanoseconds forget{0};
  // How long a thread looks for the next packet before it sleeps.
  std::chrono::nanoseconds poll{0};
};

struct LinkCounts {
  int64_t passed = 0;
  int64_t lost = 0;       // By the line, or because the other end did not take them.
  int64_t forgotten = 0;  // They belong to a connection that is not known any more.
};

// Thread-safe. Each direction has a thread, and they end with the object.
class EmulatedLink {
 public:
  // Descriptors that do not block and give and take one packet at a time, each with an
  // OffloadHeader before it.
  EmulatedLink(const LinkOptions& options, UniqueFd one, UniqueFd other);
  ~EmulatedLink();
  EmulatedLink(const EmulatedLink&) = delete;
  EmulatedLink& operator=(const EmulatedLink&) = delete;

  // For packets that come from now on, in both directions.
  void Set(const LineSettings& settings);

  // These two change nothing of a link that was made to forget none. The first forgets all
  // connections at once.
  void Forget();
  void SetForget(std::chrono::nanoseconds forget);

  // The counts of both directions together.
  LinkCounts counts() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace warpline

#endif  // WARPLINE_BENCH_NETWORK_EMULATED_LINK_H_
