#include "client_stub/core/launch/launch_attributes.h"

#include "client_stub/core/base/enum_value.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/events.h"

namespace warpline::stub {
namespace {

bool HasClusters() { return CurrentDevice().attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) != 0; }

void Forward(const CUlaunchAttribute& attribute, LaunchAttributes* read) {
  const uint32_t head[2] = {static_cast<uint32_t>(attribute.id), 0};
  read->wire.append(reinterpret_cast<const char*>(head), sizeof(head));
  static_assert(sizeof(attribute.value) == 64);
  read->wire.append(reinterpret_cast<const char*>(&attribute.value), sizeof(attribute.value));
  ++read->wire_count;
}

CUresult AddEvent(CUevent handle, LaunchAttributes* read) {
  Event* const event = FindEvent(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((event->flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
  // The event's work is complete no later than the launch itself is.
  read->events.push_back(event);
  return CUDA_SUCCESS;
}

CUresult ReadCluster(const CUlaunchAttribute& attribute, LaunchAttributes* read) {
  const auto& cluster = attribute.value.clusterDim;
  if (!HasClusters()) {
    const bool one_block = cluster.x == 1 && cluster.y == 1 && cluster.z == 1;
    return one_block ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  }
  if (cluster.x == 0 || cluster.y == 0 || cluster.z == 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  read->cluster[0] = cluster.x;
  read->cluster[1] = cluster.y;
  read->cluster[2] = cluster.z;
  Forward(attribute, read);
  return CUDA_SUCCESS;
}

CUresult ReadOne(const CUlaunchAttribute& attribute, LaunchAttributes* read) {
  switch (ValueOf(attribute.id)) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      read->cooperative = attribute.value.cooperative != 0;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      return ReadCluster(attribute, read);
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      return AddEvent(attribute.value.programmaticEvent.event, read);
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      return AddEvent(attribute.value.launchCompletionEvent.event, read);
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: {
      const int policy = attribute.value.clusterSchedulingPolicyPreference;
      if (policy < CU_CLUSTER_SCHEDULING_POLICY_DEFAULT ||
          policy > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      break;
    }
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: {
      const int domain = attribute.value.memSyncDomain;
      if (domain < 0 || domain > CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE) return CUDA_ERROR_INVALID_VALUE;
      break;
    }
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: {
      const int percent = static_cast<int>(attribute.value.sharedMemCarveout);
      if (percent < -1 || percent > 100) return CUDA_ERROR_INVALID_VALUE;
      break;
    }
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      break;
    default:
      // The attribute is one of streams or graphs only, or is unknown.
      return CUDA_ERROR_INVALID_VALUE;
  }
  // Advice goes to those devices that know all of it.
  if (HasClusters()) Forward(attribute, read);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult ReadLaunchAttributes(const CUlaunchAttribute* attributes, unsigned int count,
                              LaunchAttributes* read) {
  // This is room for one attribute of each kind, and for more kinds to come.
  if (count > 64 || (count != 0 && attributes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned int i = 0; i < count; ++i) WARPLINE_TRY(ReadOne(attributes[i], read));
  return CUDA_SUCCESS;
}

}  // namespace warpline::stub
