#include "tests/hostile/commands.h"

#include <algorithm>
#include <cstring>

namespace warpline::hostile {
namespace {

constexpr uint64_t kArena = 0x300000000000;

// Returns a value that is plausible, extreme, or anything at all.
uint64_t RandomValue(Random& random) {
  switch (random() % 6) {
    case 0:
      return random() % 16;  // A handle that another command may have made.
    case 1:
      return kArena + (2ull << 20) + random() % (4ull << 20);  // Memory that the session has.
    case 2:
      return kArena + random() % (4ull << 30);
    case 3:
      return random() % 4096;
    case 4:
      return ~uint64_t{0} >> (random() % 64);
    default:
      return random();
  }
}

}  // namespace

void AppendRandomCommand(Random& random, std::string* commands) {
  const CommandInfo& info = kCommandTable[random() % kCommandCount];
  const size_t tail = info.has_tail ? random() % 64 : 0;
  const CommandHeader header = {
      static_cast<uint16_t>(info.id), 0,
      static_cast<uint32_t>(sizeof(CommandHeader) + info.body_bytes + tail)};
  const size_t start = commands->size();
  commands->resize(start + AlignWire(header.size));
  char* at = commands->data() + start;
  std::memcpy(at, &header, sizeof(header));
  for (size_t i = 0; i < info.body_bytes; i += 8) {
    // Half of the fields are 32 bits wide.
    const uint64_t value =
        random() % 2 == 0 ? RandomValue(random)
                          : (RandomValue(random) & 0xffff) | (RandomValue(random) & 0xffff) << 32;
    std::memcpy(at + sizeof(header) + i, &value,
                std::min<size_t>(sizeof(value), info.body_bytes - i));
  }
  for (size_t i = 0; i < tail; ++i) {
    at[sizeof(header) + info.body_bytes + i] = static_cast<char>(random());
  }
}

std::string CommandsPayload(uint64_t first_seq, uint32_t count, const std::string& commands) {
  const CommandsHeader header = {first_seq, count, 0};
  std::string payload(reinterpret_cast<const char*>(&header), sizeof(header));
  return payload + commands;
}

void Mutate(Random& random, std::string* bytes) {
  for (int i = random() % 4; i >= 0 && !bytes->empty(); --i) {
    const size_t at = random() % bytes->size();
    switch (random() % 5) {
      case 0:
        (*bytes)[at] ^= static_cast<char>(1 << random() % 8);
        break;
      case 1:
        bytes->resize(at);
        break;
      case 2:
        bytes->insert(at, bytes->substr(at, random() % 64));
        break;
      case 3:
        bytes->append(random() % 64, static_cast<char>(random()));
        break;
      default:
        (*bytes)[at] = static_cast<char>(random());
        break;
    }
  }
}

}  // namespace warpline::hostile
