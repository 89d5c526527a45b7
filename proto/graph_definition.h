// How a graph crosses the wire: the steps of an image (ImageData) that GraphCreate names.
//
// A step is a command of a stream, without the stream, and the steps that it comes after, all of
// which precede it in the image. In the place of a launch's stream is the partition in which its
// kernel runs, or 0. So there are no cycles, and running the steps in their order is
// right.
//   u16 command (0: nothing)  u16 body  u32 count of `after`  u32 bytes of fields  u32 bytes of
//   tail  u32 after[count], fields, tail, each filled up with zeros to a multiple of 8 bytes
//
// A conditional step has bodies, to which later steps belong. The graph itself is body 0; the other
// bodies are numbered in the order of the conditional steps. A step comes after steps of its own
// body only.
#ifndef WARPLINE_PROTO_GRAPH_DEFINITION_H_
#define WARPLINE_PROTO_GRAPH_DEFINITION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/commands.h"

namespace warpline {

inline constexpr uint64_t kMaxGraphDefinitionBytes = 64ull << 20;

// Whether `id` may be a step of a graph.
bool IsGraphCommand(CommandId id);

// The `command` of a conditional step, whose fields are a ConditionalStep.
inline constexpr uint32_t kConditionalStep = 0xffff;
inline constexpr uint32_t kMaxGraphBodies = 0xffff;

struct ConditionalStep {
  uint64_t conditional = 0;  // The handle that ConditionalCreate gave.
  uint32_t type = 0;         // A CUgraphConditionalNodeType.
  uint32_t bodies = 0;
};

void AppendGraphStep(uint32_t command, const std::vector<uint32_t>& after, std::string_view fields,
                     std::string_view tail, std::string* definition, uint32_t body = 0);

struct GraphStep {
  uint32_t command = 0;  // 0, kConditionalStep, or a CommandId that IsGraphCommand().
  uint32_t body = 0;
  std::vector<uint32_t> after;
  std::string_view fields;  // As long as the command's struct.
  std::string_view tail;
};

// Takes step number `index` off the front of `*rest`. Returns false when no valid step is there.
bool TakeGraphStep(std::string_view* rest, uint32_t index, GraphStep* step);

}  // namespace warpline

#endif  // WARPLINE_PROTO_GRAPH_DEFINITION_H_
