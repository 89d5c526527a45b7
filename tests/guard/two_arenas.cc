#include "tests/guard/two_arenas.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "guard/rewrite/words.h"

namespace warpline::guard {
namespace {

constexpr uint64_t kArenaBytes = uint64_t{1} << TwoArenas::kArenaBits;
constexpr uint64_t kReservedBytes = 4 * kArenaBytes;
constexpr uint64_t kZoneBytes = 16 * TwoArenas::kMiB;
constexpr std::chrono::milliseconds kBeforeStop(100);
constexpr size_t kStagingBytes = 64 << 10;
// ThreadSanitizer leaves programs little of the address space; the last base is one that it allows.
constexpr uint64_t kBases[] = {0x300000000000, 0x340000000000, 0x7e9000000000};

// Fills the block's shared memory; the numbers repeat after 4096.
constexpr char kFill[] = R"(.version 7.0
.target sm_70
.address_size 64
.extern .shared .align 16 .b8 all[];
.visible .entry fill(.param .u32 first, .param .u32 bytes)
{
  .reg .pred %p<2>;
  .reg .b32 %r<9>;
  ld.param.u32 %r1, [first];
  ld.param.u32 %r2, [bytes];
  mov.u32 %r3, %tid.x;
  shl.b32 %r3, %r3, 2;
  mov.u32 %r4, all;
FILL:
  setp.ge.u32 %p1, %r3, %r2;
  @%p1 bra FILLED;
  shr.u32 %r5, %r3, 2;
  and.b32 %r5, %r5, 4095;
  add.u32 %r5, %r5, %r1;
  add.u32 %r6, %r4, %r3;
  st.volatile.shared.u32 [%r6], %r5;
  add.u32 %r3, %r3, 4096;
  bra FILL;
FILLED:
  ret;
}
)";

absl::Status Failed(const char* what, CudaResult result) {
  return absl::InternalError(absl::StrCat(what, ": CUDA error ", static_cast<int>(result)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TwoArenas>> TwoArenas::Open(const std::string& backend) {
  std::unique_ptr<TwoArenas> arenas(new TwoArenas);
  auto opened = device::OpenBackend(backend);
  if (!opened.ok()) return absl::UnavailableError(opened.status().message());
  arenas->backend_ = *std::move(opened);
  auto chunks = arenas->backend_->OpenChunkSource(0);
  if (!chunks.ok()) return absl::UnavailableError(chunks.status().message());
  arenas->chunks_ = *std::move(chunks);
  auto context = arenas->backend_->OpenContext(0);
  if (!context.ok()) return context.status();
  arenas->context_ = *std::move(context);
  uint64_t reserved = 0;
  for (const uint64_t base : kBases) {
    if (arenas->context_->ReserveArena(base, kReservedBytes) != CudaResult::kSuccess) continue;
    reserved = base;
    break;
  }
  if (reserved == 0) return absl::InternalError("no addresses for the arenas");
  absl::Status status = arenas->Map(reserved + kArenaBytes, &arenas->attacker_);
  if (status.ok()) status = arenas->Map(reserved + 3 * kArenaBytes, &arenas->neighbour_);
  if (status.ok()) status = arenas->MapPaceWords(reserved);
  if (!status.ok()) return status;
  if (arenas->context_->AllocStaging(kStagingBytes, &arenas->staging_) != CudaResult::kSuccess) {
    return absl::InternalError("no staging memory");
  }
  return arenas;
}

TwoArenas::~TwoArenas() {
  if (staging_ != nullptr) context_->FreeStaging(staging_);
}

// The whole arena is mapped, and the zones around it, as far as it is not at an end of what is
// reserved: nothing in there shall fault.
absl::Status TwoArenas::Map(uint64_t arena, Tenant* tenant) {
  tenant->arena = arena;
  tenant->memory = arena + 64 * kMiB;
  tenant->globals = tenant->memory + 2 * kMiB;
  tenant->records = tenant->memory + 3 * kMiB;
  const bool is_last = arena == (arena | (kReservedBytes - kArenaBytes));
  const CudaResult sunk =
      context_->MapSink(arena - kZoneBytes, kZoneBytes + kArenaBytes + (is_last ? 0 : kZoneBytes));
  if (sunk != CudaResult::kSuccess) return Failed("no sink", sunk);
  auto chunk = chunks_->CreateChunk(kMemoryBytes);
  if (!chunk.ok()) return chunk.status();
  tenant->chunk = *std::move(chunk);
  const CudaResult mapped = context_->MapChunk(tenant->memory, kMemoryBytes, tenant->chunk.get());
  return mapped == CudaResult::kSuccess ? absl::OkStatus() : Failed("no memory", mapped);
}

absl::Status TwoArenas::MapPaceWords(uint64_t address) {
  auto chunk = chunks_->CreateChunk(kMemoryBytes);
  if (!chunk.ok()) return chunk.status();
  pace_words_ = *std::move(chunk);
  const CudaResult mapped = context_->MapChunk(address, kMemoryBytes, pace_words_.get());
  if (mapped != CudaResult::kSuccess) return Failed("no memory for the pace words", mapped);
  attacker_.pace = address;
  neighbour_.pace = address + kMemoryBytes / 2;
  CudaResult result = CudaResult::kSuccess;
  for (const Tenant* const tenant : {&attacker_, &neighbour_}) {
    const uint32_t go_on[] = {0};
    if (result == CudaResult::kSuccess) result = Write(tenant->pace, go_on);
  }
  return result == CudaResult::kSuccess ? absl::OkStatus() : Failed("the pace words", result);
}

absl::StatusOr<device::KernelId> TwoArenas::Load(std::string_view text, const std::string& kernel) {
  device::ModuleId module{};
  if (const CudaResult result = context_->LoadModule(text, &module);
      result != CudaResult::kSuccess) {
    return absl::NotFoundError(absl::StrCat("it does not load: ", static_cast<int>(result)));
  }
  device::KernelId found{};
  if (const CudaResult result = context_->FindKernel(module, kernel, &found);
      result != CudaResult::kSuccess) {
    return absl::NotFoundError(absl::StrCat("it has no kernel: ", static_cast<int>(result)));
  }
  return found;
}

absl::StatusOr<device::KernelId> TwoArenas::LoadFor(const Tenant& tenant,
                                                    const GuardedText& guarded,
                                                    const std::string& kernel) {
  device::ModuleId module{};
  CudaResult result = context_->LoadModule(guarded.text, &module);
  if (result != CudaResult::kSuccess) return absl::NotFoundError("it does not load");
  uint64_t words = 0, bytes = 0;
  result = context_->FindGlobal(module, std::string(kConstVariable), &words, &bytes);
  // A driver may compile a module only when something is looked up in it.
  if (result == CudaResult::kInvalidPtx) return absl::NotFoundError("it does not compile");
  if (result != CudaResult::kSuccess) return Failed("no guard's words", result);
  result = WriteBytes(words, GuardWords({.arena = tenant.arena,
                                         .globals = tenant.globals,
                                         .records = tenant.records,
                                         .pace = tenant.pace}));
  if (result != CudaResult::kSuccess) return Failed("the guard's words", result);
  const std::string globals = GlobalsAt(guarded.layout, tenant.globals);
  if (guarded.layout.globals_bytes > tenant.records - tenant.globals) {
    return absl::NotFoundError("too many variables");
  }
  if (!globals.empty()) {
    result = WriteBytes(tenant.globals, globals);
    if (result != CudaResult::kSuccess) return Failed("the variables", result);
  }
  device::KernelId found{};
  result = context_->FindKernel(module, kernel, &found);
  if (result != CudaResult::kSuccess) {
    return absl::NotFoundError(absl::StrCat("it has no kernel: ", static_cast<int>(result)));
  }
  places_[found] = {tenant.arena, tenant.pace};
  return found;
}

CudaResult TwoArenas::Run(device::KernelId kernel, uint32_t threads, uint32_t shared_bytes,
                          absl::Span<const std::byte> params, uint32_t blocks) {
  const CudaResult result = Launch(kernel, blocks, {threads, 1, 1}, shared_bytes, params);
  return result == CudaResult::kSuccess ? Sync() : result;
}

CudaResult TwoArenas::RunBlock(device::KernelId kernel, const std::array<uint32_t, 3>& block,
                               absl::Span<const std::byte> params) {
  const CudaResult result = Launch(kernel, 1, block, 0, params);
  return result == CudaResult::kSuccess ? Sync() : result;
}

CudaResult TwoArenas::LeaveInSharedMemory(uint32_t first) {
  constexpr uint32_t kBytes = 48 << 10;
  constexpr uint32_t kBlocks = 2000;
  constexpr uint32_t kThreads = 1024;
  device::ModuleId module{};
  device::KernelId fill{};
  CudaResult result = context_->LoadModule(kFill, &module);
  if (result == CudaResult::kSuccess) result = context_->FindKernel(module, "fill", &fill);
  if (result != CudaResult::kSuccess) return result;
  const uint32_t params[] = {first, kBytes};
  const device::LaunchConfig config = {{kBlocks, 1, 1}, {kThreads, 1, 1}, kBytes};
  result = context_->Launch(
      fill, config, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(params), sizeof(params)),
      device::kLegacyStream);
  return result == CudaResult::kSuccess ? Sync() : result;
}

CudaResult TwoArenas::Launch(device::KernelId kernel, uint32_t blocks,
                             const std::array<uint32_t, 3>& block, uint32_t shared_bytes,
                             absl::Span<const std::byte> params, bool asks) {
  const device::LaunchConfig config = {{blocks, 1, 1}, block, shared_bytes};
  std::vector<std::byte> all(params.begin(), params.end());
  if (const auto found = places_.find(kernel); found != places_.end()) {
    AppendLaunchWords(
        LaunchWordsOf(found->second.arena, config.grid, config.block, asks, found->second.pace),
        &all);
  }
  return context_->Launch(kernel, config, all, device::kLegacyStream);
}

CudaResult TwoArenas::RunAndStop(device::KernelId kernel, const Tenant& tenant,
                                 absl::Span<const std::byte> params, uint32_t blocks) {
  constexpr uint32_t kNonBlocking = 1;
  constexpr uint32_t kThreads = 64;
  const uint32_t stop = guard::kStopKernels;
  device::StreamId other{};
  CudaResult result = context_->CreateStream(kNonBlocking, 0, &other);
  if (result == CudaResult::kSuccess) result = Launch(kernel, blocks, {kThreads, 1, 1}, 0, params);
  std::this_thread::sleep_for(kBeforeStop);
  if (result == CudaResult::kSuccess) {
    result = context_->CopyToDevice(tenant.pace, &stop, sizeof(stop), other);
  }
  if (result == CudaResult::kSuccess) result = Sync(other);
  return result == CudaResult::kSuccess ? Sync() : result;
}

CudaResult TwoArenas::Sync(device::StreamId stream) {
  device::EventId event{};
  CudaResult result = context_->CreateEvent(2, &event);
  if (result == CudaResult::kSuccess) {
    result = context_->RecordEvent(event, stream);
  }
  if (result != CudaResult::kSuccess) return result;
  while ((result = context_->QueryEvent(event)) == CudaResult::kNotReady) {
    std::this_thread::yield();
  }
  context_->DestroyEvent(event);
  return result;
}

CudaResult TwoArenas::Write(uint64_t address, absl::Span<const uint32_t> words) {
  return WriteBytes(address, {reinterpret_cast<const char*>(words.data()), words.size() * 4});
}

CudaResult TwoArenas::WriteBytes(uint64_t address, std::string_view bytes) {
  const CudaResult result =
      context_->CopyToDevice(address, bytes.data(), bytes.size(), device::kLegacyStream);
  return result == CudaResult::kSuccess ? Sync() : result;
}

CudaResult TwoArenas::Read(uint64_t address, size_t count, std::vector<uint32_t>* words) {
  CudaResult result = context_->CopyFromDevice(staging_, address, count * 4, device::kLegacyStream);
  if (result == CudaResult::kSuccess) result = Sync();
  const auto* const first = static_cast<const uint32_t*>(staging_);
  words->assign(first, first + count);
  return result;
}

}  // namespace warpline::guard
