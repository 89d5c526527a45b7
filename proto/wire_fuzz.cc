// Fuzz target: reads arbitrary bytes as commands and as replies.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "proto/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  warpline::CommandReader commands(bytes);
  while (!commands.Done()) {
    const auto command = commands.Next();
    if (!command.ok()) break;
    const auto& info = warpline::FindCommand(command->id);
    if (command->body.size() < info.body_bytes) abort();
  }
  warpline::ReplyReader replies(bytes);
  while (!replies.Done()) {
    if (!replies.Next().ok()) break;
  }
  return 0;
}
