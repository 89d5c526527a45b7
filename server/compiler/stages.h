// What the three stages do with a module. Each runs in a process of its own (stage_process.h), and
// trusts nothing of what the one before it wrote: the verifier reads the rewriter's text as if a
// tenant had sent it, and the compiler gets the very file that the verifier has accepted.
#ifndef WARPLINE_SERVER_COMPILER_STAGES_H_
#define WARPLINE_SERVER_COMPILER_STAGES_H_

#include <functional>

#include "server/compiler/jit_link.h"
#include "server/compiler/stage_process.h"
#include "server/compiler/wire.h"

namespace warpline::compiler {

// The functions return how it went, or whether it went well; if not, they have written why to
// `report`. Descriptors are borrowed, inputs are frozen files, outputs empty ones.
struct Stages {
  // The request says what `ptx` is.
  std::function<StageResult(const CompileRequest& request, int ptx, int text, int layout,
                            int report)>
      rewrite;
  // Writes nothing but its report, so that it can change nothing of what it accepts.
  std::function<bool(const CompileRequest& request, int text, int report)> verify;
  // Null where no compiler was found: then only Output::kText is to be had.
  std::function<bool(const CompileRequest& request, int text, int code, int report)> compile;
};

// Those of guard/ and of NVIDIA's compiler; `jit` is borrowed, and null for none.
Stages RealStages(const JitLink* jit);

}  // namespace warpline::compiler

#endif  // WARPLINE_SERVER_COMPILER_STAGES_H_
