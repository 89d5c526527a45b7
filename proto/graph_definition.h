// How a graph crosses the wire: the steps of an image (ImageData) that GraphCreate names.
//
// A step is a command of a stream, without the stream, and the steps that it comes after, all of
// which lie before it. So there are no cycles, and running the steps in their order is right.
//   u32 command (0: nothing)  u32 count of `after`  u32 bytes of fields  u32 bytes of tail
//   u32 after[count], fields, tail, each filled up with zeros to a multiple of 8 bytes
#ifndef WARPLINE_PROTO_GRAPH_DEFINITION_H_
#define WARPLINE_PROTO_GRAPH_DEFINITION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/commands.h"

namespace warpline {

inline constexpr uint64_t kMaxGraphDefinitionBytes = 64ull << 20;

// Whether a graph may have such a step.
bool IsGraphCommand(CommandId id);

void AppendGraphStep(uint32_t command, const std::vector<uint32_t>& after, std::string_view fields,
                     std::string_view tail, std::string* definition);

struct GraphStep {
  uint32_t command = 0;  // 0, or a CommandId that IsGraphCommand().
  std::vector<uint32_t> after;
  std::string_view fields;  // As long as the command's struct.
  std::string_view tail;
};

// Takes step number `index` off the front of `*rest`. False for what is none.
bool TakeGraphStep(std::string_view* rest, uint32_t index, GraphStep* step);

}  // namespace warpline

#endif  // WARPLINE_PROTO_GRAPH_DEFINITION_H_
