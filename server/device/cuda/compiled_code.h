// Machine code that this process has compiled from PTX, so that a module that is loaded again is
// not compiled again: workers go without the driver's own cache (docs/security.md).
//
//   std::shared_ptr<const std::string> code = kept.Find(hash);
//   if (code == nullptr) code = kept.Keep(hash, Compile(ptx));
#ifndef WARPLINE_SERVER_DEVICE_CUDA_COMPILED_CODE_H_
#define WARPLINE_SERVER_DEVICE_CUDA_COMPILED_CODE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/crypto/content_hash.h"
#include "common/mutex.h"

namespace warpline::device {

// Thread-safe.
class CompiledCode {
 public:
  // Keeps so much; what was not used for the longest time gives way.
  static constexpr uint64_t kMostBytes = 64u << 20;

  explicit CompiledCode(uint64_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  // The code that is kept for the text with this hash; null for none.
  std::shared_ptr<const std::string> Find(const ContentHash& hash);
  // Returns the code in any case; keeps it if there can be room for it.
  std::shared_ptr<const std::string> Keep(const ContentHash& hash, std::string code);

 private:
  using Entry = std::pair<ContentHash, std::shared_ptr<const std::string>>;

  const uint64_t most_bytes_;
  Mutex mu_;
  std::list<Entry> by_use_ ABSL_GUARDED_BY(mu_);  // The last used first
  std::map<ContentHash, std::list<Entry>::iterator> entries_ ABSL_GUARDED_BY(mu_);
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_COMPILED_CODE_H_
