// Attributes that can be set after a stream was created. They are kept here; those that concern the
// device are sent to it.
#include <algorithm>
#include <cstring>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;

int DeviceAttribute(CUdevice_attribute attribute) { return CurrentDevice().attribute(attribute); }

bool Valid(const CUaccessPolicyWindow& window) {
  const auto known = [](CUaccessProperty property) {
    return property >= CU_ACCESS_PROPERTY_NORMAL && property <= CU_ACCESS_PROPERTY_PERSISTING;
  };
  const auto most =
      static_cast<size_t>(DeviceAttribute(CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE));
  return window.num_bytes <= most && window.hitRatio >= 0.0f && window.hitRatio <= 1.0f &&
         known(window.hitProp) && known(window.missProp) &&
         window.missProp != CU_ACCESS_PROPERTY_PERSISTING;
}

bool Valid(CUsynchronizationPolicy policy) {
  return policy >= CU_SYNC_POLICY_AUTO && policy <= CU_SYNC_POLICY_BLOCKING_SYNC;
}

bool Valid(CUlaunchMemSyncDomain domain) {
  return domain == CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT || domain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
}

bool Valid(const CUlaunchMemSyncDomainMap& map) {
  const int domains = std::max(DeviceAttribute(CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT), 1);
  return map.default_ < domains && map.remote < domains;
}

CUresult SendAttribute(Stream* stream, CUstreamAttrID attribute, const CUstreamAttrValue& value) {
  // In a capture the attribute would be for the kernels to come, which the device can run without
  // it.
  if (Captured(*stream)) return CUDA_SUCCESS;
  const warpline::cmd::StreamSetAttribute command = {stream->wire, static_cast<uint32_t>(attribute),
                                                     0};
  return SendOn(stream, command, {reinterpret_cast<const char*>(&value), sizeof(value)});
}

CUresult Set(Stream* stream, CUstreamAttrID attribute, const CUstreamAttrValue& value) {
  CUstreamAttrValue sent;
  std::memset(&sent, 0, sizeof(sent));
  {
    warpline::MutexLock lock(&stream->attributes_mu);
    StreamAttributes& own = stream->attributes;
    switch (attribute) {
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        if (!Valid(value.accessPolicyWindow)) return CUDA_ERROR_INVALID_VALUE;
        own.window = sent.accessPolicyWindow = value.accessPolicyWindow;
        break;
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        if (!Valid(value.syncPolicy)) return CUDA_ERROR_INVALID_VALUE;
        own.sync_policy = value.syncPolicy;
        return CUDA_SUCCESS;  // Only this side decides how a thread waits.
      case CU_LAUNCH_ATTRIBUTE_PRIORITY: {
        const RemoteDevice& device = *stream->device->remote;
        sent.priority = std::clamp(value.priority, device.greatest_stream_priority,
                                   device.least_stream_priority);
        stream->priority.store(sent.priority, std::memory_order_relaxed);
        break;
      }
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        if (!Valid(value.memSyncDomain)) return CUDA_ERROR_INVALID_VALUE;
        own.domain = sent.memSyncDomain = value.memSyncDomain;
        break;
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        if (!Valid(value.memSyncDomainMap)) return CUDA_ERROR_INVALID_VALUE;
        own.domain_map = sent.memSyncDomainMap = value.memSyncDomainMap;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return SendAttribute(stream, attribute, sent);
}

CUresult Get(Stream* stream, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  warpline::MutexLock lock(&stream->attributes_mu);
  const StreamAttributes own = stream->attributes;
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      value->accessPolicyWindow = own.window;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      value->syncPolicy = own.sync_policy;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      value->priority = stream->priority.load(std::memory_order_relaxed);
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      value->memSyncDomain = own.domain;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      value->memSyncDomainMap = own.domain_map;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult EnterAndSet(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue* value,
                     DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE : Set(stream, attribute, *value);
}

CUresult EnterAndGet(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* value,
                     DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE : Get(stream, attribute, value);
}

CUresult CopyAttributes(CUstream to_handle, CUstream from_handle, DefaultStream null_means) {
  Stream* to;
  Stream* from;
  WARPLINE_TRY(EnterOn(to_handle, null_means, &to));
  WARPLINE_TRY(EnterOn(from_handle, null_means, &from));
  if (to == from) return CUDA_SUCCESS;
  for (const CUstreamAttrID attribute :
       {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
        CU_LAUNCH_ATTRIBUTE_PRIORITY, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP}) {
    CUstreamAttrValue value, old;
    std::memset(&value, 0, sizeof(value));
    std::memset(&old, 0, sizeof(old));
    WARPLINE_TRY(Get(from, attribute, &value));
    WARPLINE_TRY(Get(to, attribute, &old));
    // Bytes that no member has are 0 in both.
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    if (std::memcmp(&value, &old, sizeof(value)) != 0) WARPLINE_TRY(Set(to, attribute, value));
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
                                      const CUstreamAttrValue* value) {
  return EnterAndSet(hStream, attr, value, kLegacy);
}
CUresult CUDAAPI cuStreamSetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr,
                                           const CUstreamAttrValue* value) {
  return EnterAndSet(hStream, attr, value, kPerThread);
}
CUresult CUDAAPI cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr,
                                      CUstreamAttrValue* value_out) {
  return EnterAndGet(hStream, attr, value_out, kLegacy);
}
CUresult CUDAAPI cuStreamGetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr,
                                           CUstreamAttrValue* value_out) {
  return EnterAndGet(hStream, attr, value_out, kPerThread);
}
CUresult CUDAAPI cuStreamCopyAttributes(CUstream dst, CUstream src) {
  return CopyAttributes(dst, src, kLegacy);
}
CUresult CUDAAPI cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src) {
  return CopyAttributes(dst, src, kPerThread);
}

}  // extern "C"
