#include "client_stub/core/context/sm_resources.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "client_stub/core/base/handle_table.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/tier/tier_watch.h"
#include "common/mutex.h"
#include "proto/wire.h"

namespace warpline::stub {
namespace {

// The multiprocessors that a description stands for: those that were asked for, or a split of them.
struct Origin {
  Device* device = nullptr;
  std::vector<SmStep> path;
  SmStep split;      // No groups for what was not split.
  bool real = true;  // False for what only attributes tell.
  SmPart whole;
  std::vector<SmPart> groups;
  SmPart rest;

  bool is_split() const { return split.groups != 0; }
};

struct Descriptor {
  Device* device = nullptr;
  std::vector<SmStep> path;
};

// Which part of its origin a description is: a group's number, or one of these.
constexpr uint32_t kWhole = 0xffffffff;
constexpr uint32_t kRest = 0xfffffffe;

// Lies at the front of a description's opaque bytes.
struct Mark {
  static constexpr uint64_t kMagic = 0x57617270536d5231;  // "WarpSmR1"
  uint64_t magic = kMagic;
  uint32_t origin = 0;
  uint32_t part = kWhole;
};
static_assert(sizeof(Mark) <= sizeof(CUdevResource::_internal_padding));

// Nothing is ever removed: descriptions have no end, and the same question gives the same origin.
struct Registry {
  Mutex mu;
  std::deque<Origin> origins ABSL_GUARDED_BY(mu);
  std::map<std::string, uint32_t> origin_of ABSL_GUARDED_BY(mu);
  std::deque<Descriptor> descriptors ABSL_GUARDED_BY(mu);
  std::map<std::string, uint32_t> descriptor_of ABSL_GUARDED_BY(mu);
};

Registry& registry() {
  static Registry* const made = new Registry;
  return *made;
}

std::string_view BytesOf(const std::vector<SmStep>& path) {
  return {reinterpret_cast<const char*>(path.data()), path.size() * sizeof(SmStep)};
}

std::string KeyOf(const Device& device, const std::vector<SmStep>& path) {
  return std::to_string(device.number) + ":" + std::string(BytesOf(path));
}

std::string KeyOf(const Origin& origin) {
  std::vector<SmStep> all = origin.path;
  all.push_back(origin.split);
  return KeyOf(*origin.device, all);
}

// Says once in a session of the guarded tier that the tier has no such parts.
CUresult Watched(CUresult result) {
  TierWatch* const watch = runtime().tier_watch;
  if (watch != nullptr) watch->OnCall(static_cast<CudaResult>(result), "green contexts");
  return result;
}

// Asks the server for the split. `*count` gets how many groups there are or can be.
CUresult Ask(Origin* origin, uint32_t groups, uint32_t* count) {
  const cmd::SmSplit command = {origin->device->number, groups, origin->split.least,
                                origin->split.flags};
  std::string reply;
  WARPLINE_TRY(
      ToCu(runtime().commands->Call(WaitKind::kRoundTrip, command, BytesOf(origin->path), &reply)));
  std::string_view rest = reply;
  cmd::SmSplitReply answer;
  if (!TakeStruct(&rest, &answer)) return CUDA_ERROR_UNKNOWN;
  origin->whole = {answer.count, answer.smallest, answer.alignment};
  *count = answer.groups;
  if (groups == 0 || groups == kCountSmGroups || answer.groups == 0) return CUDA_SUCCESS;
  if (answer.groups > groups) return CUDA_ERROR_UNKNOWN;
  origin->groups.resize(answer.groups);
  for (SmPart& group : origin->groups) {
    if (!TakeStruct(&rest, &group)) return CUDA_ERROR_UNKNOWN;
  }
  return TakeStruct(&rest, &origin->rest) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

// Derives the whole device's part from its attributes, by the table of the CUDA C++ Programming
// Guide, "Green Contexts".
SmPart PartByAttributes(const Device& device) {
  const int major = device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  return {static_cast<uint32_t>(device.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)),
          major >= 9   ? 8u
          : major == 8 ? 4u
                       : 2u,
          major >= 9 ? 8u : 2u};
}

bool FindOrigin(const std::string& key, uint32_t* number, Origin* origin) {
  MutexLock lock(&registry().mu);
  const auto found = registry().origin_of.find(key);
  if (found == registry().origin_of.end()) return false;
  *number = found->second;
  *origin = registry().origins[found->second];
  return true;
}

uint32_t AddOrigin(const std::string& key, const Origin& origin) {
  MutexLock lock(&registry().mu);
  const auto [it, added] =
      registry().origin_of.emplace(key, static_cast<uint32_t>(registry().origins.size()));
  if (added) registry().origins.push_back(origin);
  return it->second;
}

void Write(uint32_t origin, uint32_t part, const SmPart& values, CUdevResource* resource) {
  *resource = {};
  if (values.count == 0) return;  // Invalid, as CUDA says it.
  resource->type = CU_DEV_RESOURCE_TYPE_SM;
  Mark mark;
  mark.origin = origin;
  mark.part = part;
  std::memcpy(resource->_internal_padding, &mark, sizeof(mark));
  resource->sm.smCount = values.count;
  resource->sm.minSmPartitionSize = values.smallest;
  resource->sm.smCoscheduledAlignment = values.alignment;
}

// Reads a description. The application may have made up any byte of it.
CUresult Read(const CUdevResource& resource, Origin* origin, Mark* mark) {
  if (resource.type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  std::memcpy(mark, resource._internal_padding, sizeof(*mark));
  MutexLock lock(&registry().mu);
  if (mark->magic != Mark::kMagic || mark->origin >= registry().origins.size()) {
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  }
  *origin = registry().origins[mark->origin];
  const bool exists = mark->part == kWhole  ? !origin->is_split()
                      : mark->part == kRest ? origin->is_split() && origin->rest.count != 0
                                            : mark->part < origin->groups.size();
  return exists ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
}

// Makes the split's step take the part.
CUresult Take(uint32_t part, SmStep* step) {
  if (part == kRest) {
    if (step->rest != 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    step->rest = 1;
    return CUDA_SUCCESS;
  }
  if (step->Takes(part)) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  step->Take(part);
  return CUDA_SUCCESS;
}

// Finds the path to what is to be split: all that a context has, or what an earlier split left.
CUresult PathToSplit(const CUdevResource& input, Origin* origin) {
  Mark mark;
  WARPLINE_TRY(Read(input, origin, &mark));
  if (!origin->real) return Watched(CUDA_ERROR_NOT_SUPPORTED);
  if (mark.part == kWhole) return CUDA_SUCCESS;
  // A group is split once it is a green context's.
  if (mark.part != kRest) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  SmStep step = origin->split;
  step.rest = 1;
  origin->path.push_back(step);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult DescribeResource(Device* device, const std::vector<SmStep>& path,
                          CUdevResource* resource) {
  Origin origin;
  origin.device = device;
  origin.path = path;
  const std::string key = KeyOf(origin);
  uint32_t number;
  if (!FindOrigin(key, &number, &origin)) {
    uint32_t count;
    const CUresult asked = Ask(&origin, 0, &count);
    if (asked == CUDA_ERROR_NOT_SUPPORTED && path.empty()) {
      origin.real = false;
      origin.whole = PartByAttributes(*device);
    } else if (asked != CUDA_SUCCESS) {
      return asked;
    }
    number = AddOrigin(key, origin);
  }
  Write(number, kWhole, origin.whole, resource);
  return CUDA_SUCCESS;
}

CUresult SplitResource(CUdevResource* result, unsigned int* groups, const CUdevResource* input,
                       CUdevResource* remaining, unsigned int flags, unsigned int least) {
  if (groups == nullptr || input == nullptr) return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned int kKnown = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
                                  CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
  if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  Origin asked;
  WARPLINE_TRY(PathToSplit(*input, &asked));
  Origin origin;
  origin.device = asked.device;
  origin.path = asked.path;
  origin.split.least = least;
  origin.split.flags = flags;
  uint32_t count;
  if (result == nullptr) {
    WARPLINE_TRY(Watched(Ask(&origin, kCountSmGroups, &count)));
    *groups = count;
    return CUDA_SUCCESS;
  }
  if (*groups == 0) return CUDA_ERROR_INVALID_VALUE;
  origin.split.groups = std::min(*groups, kMaxSmGroups);
  const std::string key = KeyOf(origin);
  uint32_t number;
  if (!FindOrigin(key, &number, &origin)) {
    WARPLINE_TRY(Watched(Ask(&origin, origin.split.groups, &count)));
    number = AddOrigin(key, origin);
  }
  for (uint32_t i = 0; i < origin.groups.size(); ++i) {
    Write(number, i, origin.groups[i], &result[i]);
  }
  *groups = static_cast<unsigned int>(origin.groups.size());
  if (remaining != nullptr) Write(number, kRest, origin.rest, remaining);
  return CUDA_SUCCESS;
}

CUresult DescriptorOf(const CUdevResource* resources, unsigned int count,
                      CUdevResourceDesc* descriptor) {
  if (resources == nullptr || count == 0 || descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Descriptor made;
  Mark first;
  SmStep step;
  for (unsigned int i = 0; i < count; ++i) {
    Origin origin;
    Mark mark;
    WARPLINE_TRY(Read(resources[i], &origin, &mark));
    if (!origin.real) return Watched(CUDA_ERROR_NOT_SUPPORTED);
    if (i == 0) {
      first = mark;
      made = {origin.device, origin.path};
      step = origin.split;
    }
    if (mark.origin != first.origin) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (mark.part == kWhole) {
      if (i > 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    } else {
      WARPLINE_TRY(Take(mark.part, &step));
    }
  }
  if (first.part != kWhole) made.path.push_back(step);
  if (made.path.size() > kMaxSmSteps) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  MutexLock lock(&registry().mu);
  const auto [it, added] = registry().descriptor_of.emplace(
      KeyOf(*made.device, made.path), static_cast<uint32_t>(registry().descriptors.size()));
  if (added) registry().descriptors.push_back(std::move(made));
  constexpr uint64_t kKind = static_cast<uint64_t>(HandleKind::kResourceDescriptor) << 56;
  *descriptor = HandleOf<CUdevResourceDesc>(kKind | uint64_t{it->second} << 4);
  return CUDA_SUCCESS;
}

bool FindDescriptor(CUdevResourceDesc descriptor, Device** device,
                    const std::vector<SmStep>** path) {
  const uint64_t handle = NumberOf(descriptor);
  const uint64_t number = (handle & ((uint64_t{1} << 56) - 1)) >> 4;
  MutexLock lock(&registry().mu);
  if (handle >> 56 != static_cast<uint64_t>(HandleKind::kResourceDescriptor) ||
      (handle & 0xf) != 0 || number >= registry().descriptors.size()) {
    return false;
  }
  *device = registry().descriptors[number].device;
  *path = &registry().descriptors[number].path;
  return true;
}

}  // namespace warpline::stub
