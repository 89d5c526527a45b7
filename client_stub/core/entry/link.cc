// The linker of the just-in-time compiler.
#include "client_stub/core/module/link.h"

#include <cstring>
#include <string>
#include <string_view>

#include "client_stub/core/base/handle_table.h"
#include "client_stub/core/module/image.h"
#include "client_stub/core/runtime/runtime.h"

using namespace warpline::stub;

namespace {

struct LinkRef {
  Link* link = nullptr;
};
using LinkTable = HandleTable<LinkRef, HandleKind::kLink, true>;

LinkTable& links() {
  static LinkTable* const made = new LinkTable;
  return *made;
}

CUresult EnterLink(CUlinkState state, Link** link) {
  WARPLINE_TRY(Enter());
  const LinkRef* const ref = links().Find(NumberOf(state));
  if (ref == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *link = ref->link;
  return CUDA_SUCCESS;
}

// Reads the options of one input, which may not ask for logs.
CUresult ReadOptions(unsigned int count, CUjit_option* options, void** values, JitOptions* read) {
  for (unsigned int i = 0; options != nullptr && i < count; ++i) {
    switch (options[i]) {
      case CU_JIT_WALL_TIME:
      case CU_JIT_INFO_LOG_BUFFER:
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_ERROR_LOG_BUFFER:
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_TARGET_FROM_CUCONTEXT:
      case CU_JIT_TARGET:
        return CUDA_ERROR_INVALID_VALUE;
      default:
        break;
    }
  }
  return read->Read(count, options, values);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuLinkCreate_v2(unsigned int numOptions, CUjit_option* options,
                                 void** optionValues, CUlinkState* stateOut) {
  WARPLINE_TRY(Enter());
  JitOptions read;
  WARPLINE_TRY(read.Read(numOptions, options, optionValues));
  if (stateOut == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* const link = new Link(CurrentDevice(), read);
  CUresult result = link->Create();
  uint64_t handle = 0;
  if (result == CUDA_SUCCESS) {
    handle = links().Add([link](LinkRef& ref, uint64_t) { ref.link = link; });
    if (handle == 0) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) {
    delete link;
    return result;
  }
  *stateOut = HandleOf<CUlinkState>(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkCreate(unsigned int numOptions, CUjit_option* options, void** optionValues,
                              CUlinkState* stateOut) {
  return cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

CUresult CUDAAPI cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size,
                                  const char* name, unsigned int numOptions, CUjit_option* options,
                                  void** optionValues) {
  Link* link;
  WARPLINE_TRY(EnterLink(state, &link));
  JitOptions read;
  WARPLINE_TRY(ReadOptions(numOptions, options, optionValues, &read));
  if (data == nullptr || size == 0 || type < 0 || type >= CU_JIT_NUM_INPUT_TYPES) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return link->Add(type, {static_cast<const char*>(data), size}, name == nullptr ? "" : name,
                   read.wire());
}

CUresult CUDAAPI cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t size,
                               const char* name, unsigned int numOptions, CUjit_option* options,
                               void** optionValues) {
  return cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult CUDAAPI cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path,
                                  unsigned int numOptions, CUjit_option* options,
                                  void** optionValues) {
  Link* link;
  WARPLINE_TRY(EnterLink(state, &link));
  JitOptions read;
  WARPLINE_TRY(ReadOptions(numOptions, options, optionValues, &read));
  if (path == nullptr || type < 0 || type >= CU_JIT_NUM_INPUT_TYPES) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::string file;
  WARPLINE_TRY(ReadImageFile(path, &file));
  if (file.empty()) return CUDA_ERROR_INVALID_IMAGE;
  return link->Add(type, file, path, read.wire());
}

CUresult CUDAAPI cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path,
                               unsigned int numOptions, CUjit_option* options,
                               void** optionValues) {
  return cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}

CUresult CUDAAPI cuLinkComplete(CUlinkState state, void** cubinOut, size_t* sizeOut) {
  Link* link;
  WARPLINE_TRY(EnterLink(state, &link));
  if (cubinOut == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string_view code;
  WARPLINE_TRY(link->Complete(&code));
  *cubinOut = const_cast<char*>(code.data());
  if (sizeOut != nullptr) *sizeOut = code.size();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState state) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(Enter());
  Link* link = nullptr;
  if (!links().Remove(NumberOf(state), [&](LinkRef& ref) { link = ref.link; })) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  delete link;
  return CUDA_SUCCESS;
}

}  // extern "C"
