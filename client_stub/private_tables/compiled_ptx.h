// The PTX from which this process's compilers made machine code.
//
// NVRTC and nvJitLink name what they compile to the compile cache (compile_cache.h). They compile a
// program to PTX, and then, on the same thread, the same program or that PTX to machine code. So
// the PTX behind their machine code is known here, and runs where machine code does not: on the CPU
// device, and guarded. nvJitLink does not name the code that it links together.
#ifndef WARPLINE_CLIENT_STUB_PRIVATE_TABLES_COMPILED_PTX_H_
#define WARPLINE_CLIENT_STUB_PRIVATE_TABLES_COMPILED_PTX_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/crypto/content_hash.h"
#include "common/mutex.h"

namespace warpline {

// Thread-safe.
class CompiledPtx {
 public:
  // Texts together; those that were noted first are forgotten first.
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

  explicit CompiledPtx(uint64_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  using Text = std::shared_ptr<const std::string>;
  // Describes the bytes that a compiler is given, which may be anything.
  struct Source {
    ContentHash hash = {};
    // The bytes themselves where they are PTX. Otherwise the PTX that became of them last on this
    // thread, or null.
    Text ptx;
  };
  // Returns false when the bytes cannot be hashed.
  bool Describe(std::string_view bytes, Source* source) const;

  // Notes that a compiler made `result` of `source`, on the thread that described it. The result
  // may be anything.
  void Note(const Source& source, std::string_view result);

  // Returns the PTX behind machine code, or nullptr where it is not known.
  Text Find(std::string_view code) const;

 private:
  Text FindHash(const ContentHash& hash) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Keep(const ContentHash& hash, Text text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t max_bytes_;
  mutable Mutex mu_;
  // By the hash of machine code, or of a program and the thread that compiled it.
  std::map<ContentHash, Text> texts_ ABSL_GUARDED_BY(mu_);
  std::deque<ContentHash> order_ ABSL_GUARDED_BY(mu_);
  // The texts' bytes, once for each entry.
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

// Returns the one of this process, which is never destroyed.
CompiledPtx& ProcessCompiledPtx();

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_PRIVATE_TABLES_COMPILED_PTX_H_
