#include "server/device/cpu/testing/arithmetic_runner.h"

#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/cpu/testing/arithmetic_inputs.h"

namespace warpline::cpu {
namespace {

using device::EventId;
using device::KernelId;
using device::kLegacyStream;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kArenaBytes = 4096 * kMiB;
// ThreadSanitizer leaves programs little of the address space; the last base is one that it allows.
constexpr uint64_t kBases[] = {0x300000000000, 0x340000000000, 0x7e9000000000};

std::string Kernel(const ArithmeticCase& test, size_t index) {
  std::string text = absl::StrCat(
      ".visible .entry k", index,
      "(.param .u64 in, .param .u64 out)\n{\n"
      ".reg .b16 %h<8>;\n.reg .b32 %r<8>;\n.reg .b64 %l<8>;\n.reg .f32 %f<8>;\n.reg .f64 %d<8>;\n"
      ".reg .pred %p<8>;\n.reg .b32 %t<8>;\n.reg .b64 %w<12>;\n"
      "ld.param.u64 %w5, [in];\nld.param.u64 %w6, [out];\n"
      "cvta.to.global.u64 %w5, %w5;\ncvta.to.global.u64 %w6, %w6;\n"
      "mov.u32 %t1, %ctaid.x;\nmov.u32 %t2, %ntid.x;\nmov.u32 %t3, %tid.x;\n"
      "mad.lo.u32 %t4, %t1, %t2, %t3;\n"
      "mul.wide.u32 %w7, %t4, 32;\nadd.u64 %w5, %w5, %w7;\n"
      "mul.wide.u32 %w8, %t4, 8;\nadd.u64 %w6, %w6, %w8;\n"
      "ld.global.v2.b64 {%w1, %w2}, [%w5];\nld.global.v2.b64 {%w3, %w4}, [%w5+16];\n");
  for (size_t i = 0; i < test.sources.size(); ++i) {
    const char code = test.sources[i];
    const std::string to = ArithmeticRegister(code, i + 1);
    const std::string from = absl::StrCat("%w", i + 1);
    switch (code) {
      case 'h':
        absl::StrAppend(&text, "cvt.u16.u64 ", to, ", ", from, ";\n");
        break;
      case 'i':
        absl::StrAppend(&text, "cvt.u32.u64 ", to, ", ", from, ";\n");
        break;
      case 'f':
        absl::StrAppend(&text, "cvt.u32.u64 %t5, ", from, ";\nmov.b32 ", to, ", %t5;\n");
        break;
      case 'p':
        absl::StrAppend(&text, "and.b64 %w9, ", from, ", 1;\nsetp.ne.u64 ", to, ", %w9, 0;\n");
        break;
      default:
        absl::StrAppend(&text, "mov.b64 ", to, ", ", from, ";\n");
        break;
    }
  }
  absl::StrAppend(&text, test.instruction, ";\n");
  switch (test.result) {
    case 'h':
      absl::StrAppend(&text, "cvt.u64.u16 %w9, %h0;\n");
      break;
    case 'i':
      absl::StrAppend(&text, "cvt.u64.u32 %w9, %r0;\n");
      break;
    case 'f':
      absl::StrAppend(&text, "mov.b32 %t6, %f0;\ncvt.u64.u32 %w9, %t6;\n");
      break;
    case 'd':
      absl::StrAppend(&text, "mov.b64 %w9, %d0;\n");
      break;
    case 'p':
      absl::StrAppend(&text, "selp.b64 %w9, 1, 0, %p0;\n");
      break;
    default:
      absl::StrAppend(&text, "mov.b64 %w9, %l0;\n");
      break;
  }
  absl::StrAppend(&text, "st.global.b64 [%w6], %w9;\nret;\n}\n");
  return text;
}

}  // namespace

std::string ArithmeticModule(const std::vector<ArithmeticCase>& cases) {
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n";
  for (size_t i = 0; i < cases.size(); ++i) text += Kernel(cases[i], i);
  return text;
}

absl::StatusOr<std::unique_ptr<ArithmeticRunner>> ArithmeticRunner::Create(
    device::Backend* backend, const std::vector<ArithmeticCase>& cases) {
  std::unique_ptr<ArithmeticRunner> runner(new ArithmeticRunner);
  runner->cases_ = cases;
  absl::StatusOr<std::unique_ptr<device::ChunkSource>> chunks = backend->OpenChunkSource(0);
  if (!chunks.ok()) return chunks.status();
  runner->chunks_ = *std::move(chunks);
  absl::StatusOr<std::unique_ptr<device::Context>> context = backend->OpenContext(0);
  if (!context.ok()) return context.status();
  runner->context_ = *std::move(context);
  absl::StatusOr<UniqueFd> chunk = runner->chunks_->CreateChunk(2 * kMiB);
  if (!chunk.ok()) return chunk.status();
  runner->chunk_ = *std::move(chunk);
  CudaResult result = CudaResult::kOutOfMemory;
  for (const uint64_t base : kBases) {
    result = runner->context_->ReserveArena(base, kArenaBytes);
    if (result != CudaResult::kSuccess) continue;
    runner->memory_ = base + 2 * kMiB;
    break;
  }
  if (result == CudaResult::kSuccess) {
    result = runner->context_->MapChunk(runner->memory_, 2 * kMiB, runner->chunk_.get());
  }
  if (result == CudaResult::kSuccess) {
    result = runner->context_->AllocStaging(kArithmeticThreads * 8, &runner->staging_);
  }
  if (result == CudaResult::kSuccess) {
    result = runner->context_->LoadModule(ArithmeticModule(cases), &runner->module_);
  }
  if (result != CudaResult::kSuccess) return StatusFromCudaResult(result, "setting up");
  return runner;
}

ArithmeticRunner::~ArithmeticRunner() {
  if (staging_ != nullptr) context_->FreeStaging(staging_);
}

absl::StatusOr<std::vector<uint64_t>> ArithmeticRunner::Run(size_t index) {
  const uint64_t out = memory_ + kMiB;
  KernelId kernel{};
  CudaResult result = context_->FindKernel(module_, absl::StrCat("k", index), &kernel);
  if (result != CudaResult::kSuccess) {
    return StatusFromCudaResult(result, cases_[index].instruction);
  }
  const std::vector<uint64_t> in = ArithmeticInputs(cases_[index]);
  EventId event{};
  std::byte params[16];
  std::memcpy(params, &memory_, 8);
  std::memcpy(params + 8, &out, 8);
  const auto step = [&](CudaResult next) {
    if (result == CudaResult::kSuccess) result = next;
  };
  step(context_->CopyToDevice(memory_, in.data(), in.size() * 8, kLegacyStream));
  step(context_->Launch(kernel, {{kArithmeticThreads / 128, 1, 1}, {128, 1, 1}, 0}, params,
                        kLegacyStream));
  step(context_->CopyFromDevice(staging_, out, kArithmeticThreads * 8, kLegacyStream));
  step(context_->CreateEvent(2, &event));
  step(context_->RecordEvent(event, kLegacyStream));
  while (result == CudaResult::kSuccess) {
    const CudaResult done = context_->QueryEvent(event);
    if (done == CudaResult::kSuccess) break;
    if (done != CudaResult::kNotReady) result = done;
    std::this_thread::yield();
  }
  if (result != CudaResult::kSuccess) {
    return StatusFromCudaResult(result, cases_[index].instruction);
  }
  const auto* words = static_cast<const uint64_t*>(staging_);
  return std::vector<uint64_t>(words, words + kArithmeticThreads);
}
}  // namespace warpline::cpu
