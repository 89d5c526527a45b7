// Watches a session of the guarded tier for what the tier cannot do for its program: says so once,
// with what to do about it, and enters the program in the record of earlier runs if that decides
// its tier.
#ifndef WARPLINE_CLIENT_STUB_CORE_TIER_TIER_WATCH_H_
#define WARPLINE_CLIENT_STUB_CORE_TIER_TIER_WATCH_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "common/tier/tier_record.h"

namespace warpline::stub {

// Returns words for a module whose image lies at `image`, which may be null: "a module of libx.so"
// where a file is mapped there. Thread-safe.
std::string ModuleAt(const void* image);

// Thread-safe.
class TierWatch {
 public:
  // Of a program whose tier is chosen by its record.
  TierWatch(tier::TierRecord record, std::string program)
      : record_(std::move(record)), program_(std::move(program)) {}
  // Of a program whose user has named the tier.
  TierWatch() = default;

  // A call about a module ended with `result`; if the call was about a kernel or variable, `name`
  // is its name. `image` is where the module's image lies in this process, or null: the file that
  // is mapped there is named.
  void OnModule(CudaResult result, const void* image, std::string_view name);

  // A call for what no session of the tier has, such as arrays, ended with `result`.
  void OnCall(CudaResult result, std::string_view what);

  // Memory was refused.
  void OnMemoryRefused();

 private:
  void Note(const std::string& obstacle);

  const std::optional<tier::TierRecord> record_;
  const std::string program_;
  Mutex mu_;
  bool noted_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TIER_TIER_WATCH_H_
