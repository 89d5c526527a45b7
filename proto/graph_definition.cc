#include "proto/graph_definition.h"

#include <cstring>

namespace warpline {
namespace {

struct StepHead {
  uint16_t command = 0;
  uint16_t body = 0;
  uint32_t after = 0;
  uint32_t fields = 0;
  uint32_t tail = 0;
};
static_assert(sizeof(StepHead) == 16);

constexpr size_t kAlignment = 8;

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

void AppendAligned(const void* data, size_t bytes, std::string* definition) {
  definition->append(static_cast<const char*>(data), bytes);
  definition->append(Aligned(bytes) - bytes, '\0');
}

bool TakeAligned(std::string_view* rest, uint64_t bytes, std::string_view* taken) {
  if (bytes > rest->size() || Aligned(bytes) > rest->size()) return false;
  *taken = rest->substr(0, bytes);
  rest->remove_prefix(Aligned(bytes));
  return true;
}

}  // namespace

bool IsGraphCommand(CommandId id) {
  switch (id) {
    case CommandId::kLaunch:
    case CommandId::kLaunchEx:
    case CommandId::kMemset:
    case CommandId::kMemsetRows:
    case CommandId::kCopyOnDevice:
    case CommandId::kCopyBoxOnDevice:
    case CommandId::kStreamMemOps:
      return true;
    default:
      return false;
  }
}

void AppendGraphStep(uint32_t command, const std::vector<uint32_t>& after, std::string_view fields,
                     std::string_view tail, std::string* definition, uint32_t body) {
  const StepHead head = {static_cast<uint16_t>(command), static_cast<uint16_t>(body),
                         static_cast<uint32_t>(after.size()), static_cast<uint32_t>(fields.size()),
                         static_cast<uint32_t>(tail.size())};
  AppendAligned(&head, sizeof(head), definition);
  AppendAligned(after.data(), after.size() * sizeof(uint32_t), definition);
  AppendAligned(fields.data(), fields.size(), definition);
  AppendAligned(tail.data(), tail.size(), definition);
}

bool TakeGraphStep(std::string_view* rest, uint32_t index, GraphStep* step) {
  StepHead head;
  if (rest->size() < sizeof(head)) return false;
  std::memcpy(&head, rest->data(), sizeof(head));
  rest->remove_prefix(sizeof(head));
  step->command = head.command;
  step->body = head.body;
  size_t fields = 0;
  if (head.command == kConditionalStep) {
    fields = sizeof(ConditionalStep);
  } else if (head.command != 0) {
    if (head.command > static_cast<uint32_t>(kCommandCount) ||
        !IsGraphCommand(static_cast<CommandId>(head.command))) {
      return false;
    }
    fields = kCommandTable[head.command - 1].body_bytes;
  }
  std::string_view after;
  if (head.fields != fields || head.after > index ||
      !TakeAligned(rest, uint64_t{head.after} * sizeof(uint32_t), &after) ||
      !TakeAligned(rest, head.fields, &step->fields) ||
      !TakeAligned(rest, head.tail, &step->tail)) {
    return false;
  }
  step->after.resize(head.after);
  if (!after.empty()) std::memcpy(step->after.data(), after.data(), after.size());
  for (size_t i = 0; i < step->after.size(); ++i) {
    // The entries are in ascending order, so that none is named twice.
    if (step->after[i] >= index || (i > 0 && step->after[i] <= step->after[i - 1])) return false;
  }
  return true;
}

}  // namespace warpline
