// A worker's end of its tenant's compiler (server/compiler).
//
//   CompilerClient compiler(socket);
//   auto compiled = compiler.Compile(ptx, {.arena_bits = 36}, 90, Output::kCubin);
//   if (compiled.ok()) context->LoadModule(compiled->code(), &module);
#ifndef WARPLINE_SERVER_COMPILER_CLIENT_COMPILER_CLIENT_H_
#define WARPLINE_SERVER_COMPILER_CLIENT_COMPILER_CLIENT_H_

#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "guard/guard.h"
#include "server/compiler/frozen_file.h"
#include "server/compiler/wire.h"

namespace warpline::compiler {

// A guarded module that is ready for the device.
class Compiled {
 public:
  Compiled(guard::GuardedText guarded, FrozenView code, bool cached)
      : guarded_(std::move(guarded)), code_(std::move(code)), cached_(cached) {}

  // Without its text.
  const guard::GuardedText& guarded() const { return guarded_; }
  guard::GuardedText& guarded() { return guarded_; }
  // What was asked for, which lives as long as this object.
  std::string_view code() const { return code_.bytes(); }
  // The compiler had it.
  bool cached() const { return cached_; }

 private:
  guard::GuardedText guarded_;
  FrozenView code_;
  bool cached_;
};

// Thread-safe; one module is compiled at a time.
class CompilerClient {
 public:
  explicit CompilerClient(UniqueFd socket) : socket_(std::move(socket)) {}

  // Guards the module, as guard::Guard() does, and compiles it for devices of capability `sm`.
  // `module` is what `source` says; nothing of it is parsed here. Blocks until that is done, which
  // the compiler bounds. INVALID_ARGUMENT, with why, for text that is refused, NOT_FOUND for an
  // image without PTX for the device; RESOURCE_EXHAUSTED for text that takes a stage beyond its
  // limits; INTERNAL where a stage has ended otherwise; UNIMPLEMENTED where there is no compiler
  // for machine code; UNAVAILABLE when the compiler is gone. `options.refused` must be empty.
  absl::StatusOr<Compiled> Compile(std::string_view module, const guard::RewriteOptions& options,
                                   int sm, Output output, Source source = Source::kText);
  // From now on nothing is compiled, and who waits for it gets UNAVAILABLE.
  void Close();

 private:
  const UniqueFd socket_;
  Mutex mu_;  // Held while something is compiled.
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace warpline::compiler

#endif  // WARPLINE_SERVER_COMPILER_CLIENT_COMPILER_CLIENT_H_
