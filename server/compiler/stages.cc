#include "server/compiler/stages.h"

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/fatbin/fatbin.h"
#include "guard/guard.h"
#include "guard/verify/verify.h"
#include "server/compiler/frozen_file.h"
#include "server/compiler/layout_format.h"

namespace warpline::compiler {
namespace {

guard::RewriteOptions OptionsOf(const CompileRequest& request) {
  return {.arena_bits = static_cast<int>(request.arena_bits),
          .hardened = request.hardened != 0,
          .checks = request.checks != 0,
          .first_site = request.first_site};
}

bool Report(const absl::Status& status, int report) {
  if (status.ok()) return true;
  const absl::string_view message = status.message().substr(0, CompileReply::kMostReason);
  (void)WriteAll(report, {message.data(), message.size()});
  return false;
}

// The PTX of what the worker sent, whose grammar is known here alone. NOT_FOUND where it has none
// for the device.
absl::StatusOr<std::string> PtxIn(std::string_view image, int sm) {
  auto ptx = fatbin::PtxOf(image, sm);
  if (ptx.ok() && ptx->size() > kMostPtxBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it has more than ", kMostPtxBytes >> 20, " MiB of text"));
  }
  return ptx;
}

StageResult Rewrite(const CompileRequest& request, int ptx, int text, int layout, int report) {
  const auto input = FrozenView::Map(ptx, MostBytes(request.source));
  if (!input.ok()) return ResultOf(Report(input.status(), report));
  absl::StatusOr<std::string> of_image("");
  if (request.source == Source::kImage) {
    of_image = PtxIn(input->bytes(), static_cast<int>(request.sm));
    const bool none = absl::IsNotFound(of_image.status());
    if (!Report(of_image.status(), report)) {
      return none ? StageResult::kNoPtx : StageResult::kRefused;
    }
  }
  // It also verifies, which counts for nothing here, but tells it what the verifier would refuse,
  // so that a mistake of the rewriter's costs a kernel and not the module.
  const auto guarded = guard::Guard(request.source == Source::kImage ? *of_image : input->bytes(),
                                    OptionsOf(request));
  if (!guarded.ok()) return ResultOf(Report(guarded.status(), report));
  absl::Status status = WriteAll(text, guarded->text);
  if (status.ok()) status = WriteAll(layout, LayoutBytes(*guarded));
  return ResultOf(Report(status, report));
}

bool Verify(const CompileRequest& request, int text, int report) {
  const auto input = FrozenView::Map(text, kMostOutputBytes);
  if (!input.ok()) return Report(input.status(), report);
  return Report(guard::Verify(input->bytes(), guard::PolicyOf(OptionsOf(request))), report);
}

bool Compile(const JitLink& jit, const CompileRequest& request, int text, int code, int report) {
  const auto input = FrozenView::Map(text, kMostOutputBytes);
  if (!input.ok()) return Report(input.status(), report);
  const auto cubin = jit.Compile(input->bytes(), static_cast<int>(request.sm));
  return Report(cubin.ok() ? WriteAll(code, *cubin) : cubin.status(), report);
}

}  // namespace

Stages RealStages(const JitLink* jit) {
  Stages stages = {&Rewrite, &Verify, nullptr};
  if (jit != nullptr) {
    stages.compile = [jit](const CompileRequest& request, int text, int code, int report) {
      return Compile(*jit, request, text, code, report);
    };
  }
  return stages;
}

}  // namespace warpline::compiler
