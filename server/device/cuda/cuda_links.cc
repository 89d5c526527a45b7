#include "server/device/cuda/cuda_links.h"

#include <cstring>
#include <utility>
#include <vector>

namespace warpline::device {
namespace {

// The most that the driver may write of each text.
constexpr size_t kLogBytes = 32u << 10;

// A link under way, with the memory that the driver writes to for as long as the link lives.
struct Link {
  CUlinkState state = nullptr;
  std::vector<CUjit_option> ids;
  std::vector<void*> values;
  std::string info = std::string(kLogBytes, '\0');
  std::string errors = std::string(kLogBytes, '\0');
  std::string info_taken;
  std::string errors_taken;

  void Add(CUjit_option id, uint64_t value) {
    ids.push_back(id);
    values.push_back(reinterpret_cast<void*>(value));
  }
};

// Takes what is new; the driver appends to its texts, or begins them anew.
void TakeNew(const std::string& buffer, std::string* taken, std::string* out) {
  std::string text(buffer.data(), strnlen(buffer.data(), buffer.size()));
  const bool appended = text.compare(0, taken->size(), *taken) == 0;
  *out = appended ? text.substr(taken->size()) : text;
  *taken = std::move(text);
}

void TakeLog(Link* link, JitLog* log) {
  for (size_t i = 0; i < link->ids.size(); ++i) {
    if (link->ids[i] == CU_JIT_WALL_TIME) {
      std::memcpy(&log->wall_ms, &link->values[i], sizeof(log->wall_ms));
    }
  }
  TakeNew(link->info, &link->info_taken, &log->info);
  TakeNew(link->errors, &link->errors_taken, &log->errors);
}

Link* Native(LinkId id) { return reinterpret_cast<Link*>(static_cast<uint64_t>(id)); }

}  // namespace

CudaResult CudaLinks::CreateLink(absl::Span<const JitOption> options, LinkId* id) {
  Enter();
  auto* const link = new Link;
  for (const JitOption& option : options) {
    link->Add(static_cast<CUjit_option>(option.id), option.value);
  }
  link->Add(CU_JIT_WALL_TIME, 0);
  link->Add(CU_JIT_INFO_LOG_BUFFER, reinterpret_cast<uint64_t>(link->info.data()));
  link->Add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, link->info.size());
  link->Add(CU_JIT_ERROR_LOG_BUFFER, reinterpret_cast<uint64_t>(link->errors.data()));
  link->Add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, link->errors.size());
  const CUresult result = api_->p_cuLinkCreate(static_cast<unsigned>(link->ids.size()),
                                               link->ids.data(), link->values.data(), &link->state);
  if (result != CUDA_SUCCESS) {
    delete link;
    return ToResult(result);
  }
  *id = static_cast<LinkId>(reinterpret_cast<uint64_t>(link));
  return CudaResult::kSuccess;
}

CudaResult CudaLinks::AddToLink(LinkId id, uint32_t type, std::string_view data,
                                const std::string& name, absl::Span<const JitOption> options,
                                JitLog* log) {
  Enter();
  if (type >= CU_JIT_NUM_INPUT_TYPES || data.empty()) return CudaResult::kInvalidValue;
  Link* const link = Native(id);
  // PTX must end in NUL, which a view does not promise.
  std::string terminated(data);
  const bool add_end = type == CU_JIT_INPUT_PTX && terminated.back() != '\0';
  std::vector<CUjit_option> ids;
  std::vector<void*> values;
  for (const JitOption& option : options) {
    ids.push_back(static_cast<CUjit_option>(option.id));
    values.push_back(reinterpret_cast<void*>(static_cast<uint64_t>(option.value)));
  }
  const CUresult result = api_->p_cuLinkAddData(
      link->state, static_cast<CUjitInputType>(type), terminated.data(),
      terminated.size() + (add_end ? 1 : 0), name.empty() ? nullptr : name.c_str(),
      static_cast<unsigned>(ids.size()), ids.data(), values.data());
  TakeLog(link, log);
  return ToResult(result);
}

CudaResult CudaLinks::CompleteLink(LinkId id, std::string* code, JitLog* log) {
  Enter();
  Link* const link = Native(id);
  void* cubin = nullptr;
  size_t bytes = 0;
  const CUresult result = api_->p_cuLinkComplete(link->state, &cubin, &bytes);
  if (result == CUDA_SUCCESS) code->assign(static_cast<const char*>(cubin), bytes);
  TakeLog(link, log);
  return ToResult(result);
}

void CudaLinks::DestroyLink(LinkId id) {
  Enter();
  Link* const link = Native(id);
  api_->p_cuLinkDestroy(link->state);
  delete link;
}

}  // namespace warpline::device
