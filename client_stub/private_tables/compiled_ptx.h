// The PTX from which this process's compilers made machine code.
//
// NVRTC and nvJitLink name what they compile to the compile cache (compile_cache.h). They compile a
// program to PTX, and then, on the same thread, the same program or that PTX to machine code. So
// the PTX behind such machine code is known here, and runs where machine code does not: on the CPU
// device, and guarded. Code of NVRTC before 12.9, and code that nvJitLink links of several objects,
// is not named.
#ifndef WARPLINE_CLIENT_STUB_PRIVATE_TABLES_COMPILED_PTX_H_
#define WARPLINE_CLIENT_STUB_PRIVATE_TABLES_COMPILED_PTX_H_

#include <cstdint>
#include <list>
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
  // The most bytes of all texts together. Those that were noted first are forgotten first.
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

  explicit CompiledPtx(uint64_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  using Text = std::shared_ptr<const std::string>;
  // Describes the bytes that a compiler is given, which may be anything.
  struct Source {
    ContentHash name = {};  // Names the bytes on this thread.
    // The bytes themselves where they are PTX. Otherwise the PTX that became of them last on this
    // thread, or null.
    Text ptx;
  };
  // Returns false when the bytes cannot be hashed.
  bool Describe(std::string_view bytes, Source* source) const;

  // Notes that a compiler made `ptx` of `source`. Ignores what is no PTX.
  void NotePtx(const Source& source, std::string_view ptx);
  // Notes that a compiler made `code` of `source`. Returns false, and does nothing, where its PTX
  // is not known or `code` is no machine code.
  bool NoteCode(const Source& source, std::string_view code);

  // Returns whether the bytes are bare machine code.
  static bool IsCode(std::string_view bytes);

  // Returns the PTX behind machine code, or nullptr where it is not known.
  Text Find(std::string_view code) const;

 private:
  struct Entry {
    ContentHash name = {};  // Names machine code, or a program on the thread that compiled it.
    Text text;
  };

  Text FindName(const ContentHash& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Keep(const ContentHash& name, Text text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(std::list<Entry>::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t max_bytes_;
  mutable Mutex mu_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mu_);  // The one that was noted last comes last.
  std::map<ContentHash, std::list<Entry>::iterator> by_name_ ABSL_GUARDED_BY(mu_);
  // The bytes of all entries, each with its text.
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

// Returns the one of this process, which is never destroyed.
CompiledPtx& ProcessCompiledPtx();

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_PRIVATE_TABLES_COMPILED_PTX_H_
