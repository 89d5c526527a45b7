#include "server/device/cuda/shared/cuda_shared_libraries.h"

#include <algorithm>
#include <utility>

#include "proto/adapters/library_call.h"
#include "server/device/gate/library_gate.h"

namespace warpline::device {
namespace {

// The least part of a result that a block of a kernel of the library computes.
constexpr uint64_t kBytesOfBlock = uint64_t{64} << 10;

constexpr uint64_t kLeastWorkspace = uint64_t{4} << 20;

// Room for the copies of one call, whole granules of memory.
constexpr uint64_t kBytesOfAddresses = uint64_t{2} << 20;
static_assert(AddressCopies::kMostArrays * kMostLibraryAddresses * sizeof(uint64_t) <=
              kBytesOfAddresses);

StreamWork WorkOf(const LibraryRequest& request) {
  uint64_t bytes = 0;
  for (const LibraryRequest::Operand& operand : request.operands) {
    if (operand.writes) bytes = std::max(bytes, operand.bytes);
  }
  for (const LibraryRequest::Addresses& addresses : request.addresses) {
    if (addresses.writes) bytes = std::max(bytes, addresses.count * addresses.bytes);
  }
  return {bytes / kBytesOfBlock + 1, false};
}

}  // namespace

CudaSharedLibraries::~CudaSharedLibraries() {
  Enter();
  MutexLock lock(&mu_);
  workspaces_.clear();
  if (fault_.load() != nullptr) share_->cublas->addresses()->GiveWord(fault_.load());
}

CudaResult CudaSharedLibraries::LibraryVersion(uint32_t* version) {
  if (share_->cublas == nullptr) return Lacks(Capability::kLibraries);
  *version = share_->cublas->version();
  return CudaResult::kSuccess;
}

// The multiprocessors of an H200 were seen to do twice as much in large matrix products. The bytes
// are half of what a multiprocessor gets where few work, and a fifth of what the device has:
// products with one or two rows get no more. docs/decisions/0070 has the figures.
uint64_t CudaSharedLibraries::LibraryMicroseconds(const LibraryCost& cost) {
  constexpr uint64_t kSingles = 190'000;  // Operations of a multiprocessor in a microsecond.
  constexpr uint64_t kHalves = 2'000'000;
  constexpr uint64_t kBytes = 20'000, kMostBytes = 1'000'000;
  constexpr uint64_t kBatches = 16;
  const auto has = static_cast<uint64_t>(
      std::max(1, SizeOf(share_->contexts->slots(), share_->session->place())));
  const uint64_t rate = cost.number_bytes == 2   ? kHalves
                        : cost.number_bytes == 4 ? kSingles
                                                 : kSingles / share_->double_ratio;
  // The multiprocessors that have a block.
  const uint64_t used = std::clamp<uint64_t>(cost.blocks, 1, has);
  return cost.work / (used * rate) + cost.bytes / std::min(used * kBytes, kMostBytes) +
         cost.batches / (has * kBatches);
}

CudaResult CudaSharedLibraries::LibraryAlgorithms(uint32_t modes, absl::Span<const uint64_t> values,
                                                  std::vector<LtAlgorithm>* algorithms) {
  if (share_->cublas == nullptr) return Lacks(Capability::kLibraries);
  Enter();
  return share_->cublas->Algorithms(modes, values, share_->streams->moments(), algorithms);
}

CudaResult CudaSharedLibraries::LibraryKinds(absl::Span<const uint64_t> values,
                                             std::vector<LtKind>* kinds) {
  if (share_->cublas == nullptr) return Lacks(Capability::kLibraries);
  Enter();
  return share_->cublas->Kinds(values, share_->streams->moments(), kinds);
}

CudaResult CudaSharedLibraries::MakeMemory(const LibraryRequest& request, uint64_t bytes,
                                           std::unique_ptr<LibraryMemory>* memory) {
  const CudaResult taken = request.take(bytes);
  if (taken != CudaResult::kSuccess) return taken;
  auto made = LibraryMemory::Make(api_, device_, bytes);
  if (!made.ok()) {
    request.give(bytes);
    return CudaResult::kOutOfMemory;
  }
  *memory = *std::move(made);
  return CudaResult::kSuccess;
}

CudaResult CudaSharedLibraries::FindWorkspace(const LibraryRequest& request,
                                              const SessionStream* stream, Workspace** workspace) {
  for (Workspace& known : workspaces_) {
    if (known.user == nullptr || known.user.get() == stream) {
      *workspace = &known;
      return CudaResult::kSuccess;
    }
  }
  CudaResult made = CudaResult::kOutOfMemory;
  // A session with little memory gets less, and perhaps slower kernels.
  for (uint64_t bytes = CublasLibrary::kWorkspaceBytes;
       workspaces_.size() < kMostWorkspaces && bytes >= kLeastWorkspace; bytes /= 2) {
    std::unique_ptr<LibraryMemory> memory;
    made = MakeMemory(request, bytes, &memory);
    if (made != CudaResult::kSuccess) continue;
    *workspace = &workspaces_.emplace_back(Workspace{std::move(memory), nullptr, nullptr, 0});
    return CudaResult::kSuccess;
  }
  if (workspaces_.empty()) return made;
  *workspace =
      &*std::min_element(workspaces_.begin(), workspaces_.end(),
                         [](const Workspace& a, const Workspace& b) { return a.used < b.used; });
  return CudaResult::kSuccess;
}

CudaResult CudaSharedLibraries::PlaceAddresses(const LibraryRequest& request, Workspace* workspace,
                                               std::vector<uint64_t>* values,
                                               std::vector<AddressCopies::Array>* arrays) {
  if (request.addresses.empty()) return CudaResult::kSuccess;
  if (request.addresses.size() > AddressCopies::kMostArrays) return CudaResult::kNotSupported;
  if (workspace->addresses == nullptr) {
    const CudaResult made = MakeMemory(request, kBytesOfAddresses, &workspace->addresses);
    if (made != CudaResult::kSuccess) return made;
  }
  if (fault_.load() == nullptr) fault_.store(share_->cublas->addresses()->TakeWord());
  if (fault_.load() == nullptr) return CudaResult::kOutOfMemory;
  CUdeviceptr to = workspace->addresses->workspace().address;
  for (const LibraryRequest::Addresses& addresses : request.addresses) {
    const auto bounds = BoundsOfAddresses(gate(), addresses.bytes);
    if (!bounds || addresses.slot >= values->size() || addresses.count > kMostLibraryAddresses) {
      return CudaResult::kInvalidValue;
    }
    uint64_t& value = (*values)[addresses.slot];
    AddressCopies::Array array;
    array.from = value;
    array.to = to;
    array.count = addresses.count;
    array.first = array.last = bounds->first;
    if (addresses.bytes != 0) {
      array.last = bounds->last;
      array.odd = addresses.align - 1;
      array.word = fault_.load();
    }
    arrays->push_back(array);
    value = to;
    to += kMostLibraryAddresses * sizeof(uint64_t);
  }
  return CudaResult::kSuccess;
}

CudaResult CudaSharedLibraries::LibraryFault() {
  uint32_t* const word = fault_.load(std::memory_order_relaxed);
  if (word == nullptr) return CudaResult::kSuccess;
  return static_cast<CudaResult>(__atomic_load_n(word, __ATOMIC_ACQUIRE));
}

CudaResult CudaSharedLibraries::CallLibrary(const LibraryRequest& request, StreamId stream,
                                            uint32_t* launches) {
  *launches = 0;
  if (share_->cublas == nullptr) return Lacks(Capability::kLibraries);
  Enter();
  const std::shared_ptr<SessionStream> to = share_->streams->Keep(stream);
  if (to == nullptr) return CudaResult::kInvalidHandle;
  MutexLock lock(&mu_);
  Workspace* workspace = nullptr;
  const CudaResult found = FindWorkspace(request, to.get(), &workspace);
  if (found != CudaResult::kSuccess) return found;
  auto values = AdmitLibraryCall(gate(), request, workspace->memory->workspace().address);
  if (!values) return CudaResult::kInvalidValue;
  std::vector<AddressCopies::Array> arrays;
  const CudaResult placed = PlaceAddresses(request, workspace, &*values, &arrays);
  if (placed != CudaResult::kSuccess) return placed;
  const LegacyOrder::Scope scope(share_->streams->order(), to.get(), WorkOf(request));
  if (scope.error() != CUDA_SUCCESS) return ToResult(scope.error());
  if (workspace->user != nullptr && workspace->user != to) {
    SessionStream* const former = workspace->user.get();
    CUresult after = former->Cover(former->issued.value());
    if (after == CUDA_SUCCESS) {
      after = api_->p_cuStreamWaitEvent(scope.native(), former->mark()->event(), 0);
    }
    if (after != CUDA_SUCCESS) return ToResult(after);
  }
  workspace->user = to;
  workspace->used = ++calls_;
  return share_->cublas->Call({request.function, request.modes, *values, arrays},
                              share_->streams->moments(), to.get(), scope.native(),
                              workspace->memory->workspace(), launches);
}

}  // namespace warpline::device
