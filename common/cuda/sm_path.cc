#include "common/cuda/sm_path.h"

#include <cstring>

namespace warpline {
namespace {

bool IsValid(const SmStep& step) {
  if (step.groups == 0 || step.groups > kMaxSmGroups || step.rest > 1) return false;
  bool takes = step.rest == 1;
  for (uint32_t group = 0; group < kMaxSmGroups; ++group) {
    if (!step.Takes(group)) continue;
    if (group >= step.groups) return false;
    takes = true;
  }
  return takes;
}

}  // namespace

bool ReadSmPath(std::string_view bytes, std::vector<SmStep>* path) {
  path->clear();
  if (bytes.size() % sizeof(SmStep) != 0 || bytes.size() / sizeof(SmStep) > kMaxSmSteps) {
    return false;
  }
  for (; !bytes.empty(); bytes.remove_prefix(sizeof(SmStep))) {
    SmStep& step = path->emplace_back();
    std::memcpy(&step, bytes.data(), sizeof(step));
    if (!IsValid(step)) return false;
  }
  return true;
}

}  // namespace warpline
