// Commands with addresses of memory that the session does not have (C1). Each is made with its own
// memory first, which must work: otherwise its refusals prove nothing.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_numbers.h"
#include "proto/frames.h"
#include "proto/graph_definition.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"

namespace warpline::attack {
namespace {

constexpr uint64_t kStream = kLegacyStreamHandle;
constexpr uint64_t kBytes = 64;     // Of each access.
constexpr int kFloat = 0x20;        // CU_AD_FORMAT_FLOAT
constexpr uint32_t kWait64 = 4;     // CU_STREAM_MEM_OP_WAIT_VALUE_64
constexpr uint32_t kWrite64 = 5;    // CU_STREAM_MEM_OP_WRITE_VALUE_64
constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED
constexpr char kPtx[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry store(.param .u64 to)
{
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [to];
  cvta.to.global.u64 %rd1, %rd1;
  st.global.u64 [%rd1], %rd1;
  ret;
}
.visible .entry load(.param .u64 from)
{
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [from];
  mov.u64 %rd3, 0x300000201000;
  cvta.to.global.u64 %rd1, %rd1;
  ld.global.u64 %rd2, [%rd1];
  st.global.u64 [%rd3], %rd2;
  ret;
}
)";

using Access = absl::StatusOr<int> (*)(WireSession* session, uint64_t address);

template <typename Struct>
std::string_view BytesOf(const Struct& fields) {
  return {reinterpret_cast<const char*>(&fields), sizeof(fields)};
}

// A handle that was not used before.
uint64_t NewHandle() {
  static uint64_t last = 1000;
  return ++last;
}

absl::StatusOr<int> CopyFrom(WireSession* session, uint64_t address) {
  const auto read = session->Read(address, kBytes);
  if (absl::IsInvalidArgument(read.status())) return 1;
  if (!read.ok()) return read.status();
  return 0;
}

absl::StatusOr<int> CopyTo(WireSession* session, uint64_t address) {
  return session->Do(cmd::CopyToDevice{kStream, address}, std::string(kBytes, 'x'));
}

absl::StatusOr<int> CopyOnto(WireSession* session, uint64_t address) {
  return session->Do(cmd::CopyOnDevice{kStream, address, kOwn + 4096, kBytes});
}

absl::StatusOr<int> CopyOutOf(WireSession* session, uint64_t address) {
  return session->Do(cmd::CopyOnDevice{kStream, kOwn + 4096, address, kBytes});
}

absl::StatusOr<int> Set(WireSession* session, uint64_t address) {
  return session->Do(cmd::Memset{kStream, address, kBytes, 1, 1});
}

absl::StatusOr<int> SetRows(WireSession* session, uint64_t address) {
  return session->Do(cmd::MemsetRows{kStream, address, 16, 16, 4, 1, 1});
}

absl::StatusOr<int> BoxTo(WireSession* session, uint64_t address) {
  return session->Do(cmd::CopyBoxToDevice{kStream, address, 16, 64, 16, 4, 1},
                     std::string(kBytes, 'x'));
}

absl::StatusOr<int> BoxFrom(WireSession* session, uint64_t address) {
  return session->Call(cmd::CopyBoxFromDevice{kStream, address, 16, 64, 16, 4, 1});
}

absl::StatusOr<int> BoxOnto(WireSession* session, uint64_t address) {
  return session->Do(cmd::CopyBoxOnDevice{kStream, address, 16, 64, kOwn + 4096, 16, 64, 16, 4, 1});
}

absl::StatusOr<int> BoxOutOf(WireSession* session, uint64_t address) {
  return session->Do(cmd::CopyBoxOnDevice{kStream, kOwn + 4096, 16, 64, address, 16, 64, 16, 4, 1});
}

// As device::MemOp.
struct WordOperation {
  uint32_t kind, flags;
  uint64_t address, value;
};

absl::StatusOr<int> MemOps(WireSession* session, uint64_t address, uint32_t kind) {
  const WordOperation operation = {kind, 0, address, 0};
  return session->Do(cmd::StreamMemOps{kStream}, BytesOf(operation));
}

absl::StatusOr<int> WriteWord(WireSession* session, uint64_t address) {
  return MemOps(session, address, kWrite64);
}

// Waits until the word is at least 0, which it is at once.
absl::StatusOr<int> WaitForWord(WireSession* session, uint64_t address) {
  return MemOps(session, address, kWait64);
}

// The first operation is good.
absl::StatusOr<int> WriteSecondWord(WireSession* session, uint64_t address) {
  const WordOperation operations[] = {{kWrite64, 0, kOwn, 0}, {kWrite64, 0, address, 0}};
  return session->Do(cmd::StreamMemOps{kStream}, BytesOf(operations));
}

absl::StatusOr<int> MakeArray(WireSession* session, uint64_t array) {
  return session->Call(cmd::ArrayCreate{array, 4, 4, 0, kFloat, 1, 0, 0});
}

absl::StatusOr<int> ToArray(WireSession* session, uint64_t address) {
  const uint64_t array = NewHandle();
  if (const auto made = MakeArray(session, array); !made.ok() || *made != 0) return made;
  return session->Do(cmd::CopyDeviceToArray{kStream, array, 0, 0, 0, address, 16, 64, 16, 4, 1});
}

absl::StatusOr<int> FromArray(WireSession* session, uint64_t address) {
  const uint64_t array = NewHandle();
  if (const auto made = MakeArray(session, array); !made.ok() || *made != 0) return made;
  return session->Do(cmd::CopyArrayToDevice{kStream, address, 16, 64, array, 0, 0, 0, 16, 4, 1});
}

absl::StatusOr<int> Texture(WireSession* session, uint64_t address) {
  cmd::TextureCreate texture;
  texture.address = address;
  texture.width = kBytes;
  texture.kind = 2;  // CU_RESOURCE_TYPE_LINEAR
  texture.format = kFloat;
  texture.channels = 1;
  return session->Call(texture);
}

absl::StatusOr<int> TextureOfRows(WireSession* session, uint64_t address) {
  cmd::TextureCreate texture;
  texture.address = address;
  texture.width = 16;
  texture.height = 2;
  texture.pitch = 512;
  texture.kind = 3;  // CU_RESOURCE_TYPE_PITCH2D
  texture.format = kFloat;
  texture.channels = 1;
  return session->Call(texture);
}

absl::StatusOr<int> Graph(WireSession* session, uint32_t command, std::string_view fields,
                          std::string_view tail = "") {
  std::string definition;
  AppendGraphStep(command, {}, fields, tail, &definition);
  const uint64_t image = NewHandle(), graph = NewHandle();
  session->Add(cmd::ImageData{image, definition.size(), 0}, definition);
  const auto made = session->Call(cmd::GraphCreate{graph, image});
  if (!made.ok() || *made != 0) return made;
  return session->Do(cmd::GraphLaunch{kStream, graph});
}

absl::StatusOr<int> GraphSet(WireSession* session, uint64_t address) {
  const cmd::Memset step = {0, address, kBytes, 1, 1};
  return Graph(session, static_cast<uint32_t>(CommandId::kMemset), BytesOf(step));
}

absl::StatusOr<int> GraphCopy(WireSession* session, uint64_t address) {
  const cmd::CopyOnDevice step = {0, kOwn + 4096, address, kBytes};
  return Graph(session, static_cast<uint32_t>(CommandId::kCopyOnDevice), BytesOf(step));
}

absl::StatusOr<int> GraphCopyTo(WireSession* session, uint64_t address) {
  const cmd::CopyOnDevice step = {0, address, kOwn + 4096, kBytes};
  return Graph(session, static_cast<uint32_t>(CommandId::kCopyOnDevice), BytesOf(step));
}

absl::StatusOr<int> GraphSetRows(WireSession* session, uint64_t address) {
  const cmd::MemsetRows step = {0, address, 16, 16, 4, 1, 1};
  return Graph(session, static_cast<uint32_t>(CommandId::kMemsetRows), BytesOf(step));
}

absl::StatusOr<int> GraphBoxTo(WireSession* session, uint64_t address) {
  const cmd::CopyBoxOnDevice step = {0, address, 16, 64, kOwn + 4096, 16, 64, 16, 4, 1};
  return Graph(session, static_cast<uint32_t>(CommandId::kCopyBoxOnDevice), BytesOf(step));
}

absl::StatusOr<int> GraphBoxFrom(WireSession* session, uint64_t address) {
  const cmd::CopyBoxOnDevice step = {0, kOwn + 4096, 16, 64, address, 16, 64, 16, 4, 1};
  return Graph(session, static_cast<uint32_t>(CommandId::kCopyBoxOnDevice), BytesOf(step));
}

absl::StatusOr<int> GraphWriteWord(WireSession* session, uint64_t address) {
  const WordOperation operation = {kWrite64, 0, address, 0};
  return Graph(session, static_cast<uint32_t>(CommandId::kStreamMemOps),
               BytesOf(cmd::StreamMemOps{0}), BytesOf(operation));
}

absl::StatusOr<int> Kernel(WireSession* session, const char* name, uint64_t address) {
  const uint64_t module = NewHandle(), kernel = NewHandle();
  if (const auto loaded = session->Load(module, kPtx); !loaded.ok() || *loaded != 0) return loaded;
  const auto found = session->Call(cmd::KernelFind{kernel, module}, name);
  if (!found.ok() || *found != 0) return found;
  return session->Do(cmd::Launch{kStream, kernel, 1, 1, 1, 1, 1, 1, 0, 0}, BytesOf(address));
}

absl::StatusOr<int> KernelStore(WireSession* session, uint64_t address) {
  return Kernel(session, "store", address);
}

absl::StatusOr<int> KernelLoad(WireSession* session, uint64_t address) {
  return Kernel(session, "load", address);
}

// What is tried besides addresses outside the arena.
enum class Within {
  kUnmapped,  // Addresses of the session's arena where it has no memory.
  kNothing,
};

// Where a session has nothing. A worker with a GPU lies at the same addresses in every process.
std::vector<uint64_t> Foreign(const WireTarget& target, uint64_t own_bytes, Within within) {
  std::vector<uint64_t> addresses = {0x555555554000,  // The worker's program.
                                     0x7ffff7d00000,  // Its libraries.
                                     0x7ffffffde000,  // Its stack.
                                     kHostArenaBase,  // Host memory that nobody shares.
                                     ~uint64_t{0} - kBytes / 2 + 1};  // It wraps around.
  addresses.insert(addresses.begin(), target.foreign.begin(), target.foreign.end());
  // The arena of a guarded session has something everywhere.
  if (within == Within::kNothing || target.tier == Tier::kGuarded) return addresses;
  // Behind a grant lies a chunk that takes stray accesses, which is the session's own.
  const uint64_t end = kOwn + own_bytes + kChunkGranularity;
  addresses.push_back(kArena + kArenaBytes - 4096);  // Of no grant.
  addresses.push_back(end - 4);                      // Half of a word is its own.
  return addresses;
}

WireResult Try(const WireTarget& target, Access access, Within within) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const uint64_t own_bytes = (*session)->own_bytes();
  const auto good = access(session->get(), kOwn);
  if (!good.ok()) return Unprepared(good.status());
  if (*good == kNotSupported) return NotHere("the device has no such thing");
  if (*good != 0) return Unprepared(absl::StrCat("CUDA error ", *good));
  WireResult last;
  bool over = false;
  const std::vector<uint64_t> foreign = Foreign(target, own_bytes, within);
  for (const uint64_t address : foreign) {
    // Some errors are the session's last.
    if (over) {
      session->reset();
      session = WireSession::Open(target);
      if (!session.ok()) return Unprepared(session.status());
    }
    const auto result = access(session->get(), address);
    last = JudgeRefusal(result, absl::StrCat("at ", absl::Hex(address)));
    if (last.outcome != WireOutcome::kStopped) return last;
    over = true;
    if (result.ok()) {
      const auto alive = CopyTo(session->get(), kOwn);
      over = !alive.ok() || *alive != 0;
    }
  }
  return Stopped(
      absl::StrCat("its own works, and ", foreign.size(), " others do not; last, ", last.detail));
}

template <Access kAccess>
WireResult Run(const WireTarget& target) {
  return Try(target, kAccess, Within::kUnmapped);
}

// A texture is no access. It may be made of addresses of the session's own arena where nothing is
// mapped yet or any more: what reads it faults there, or finds the session's own memory.
WireResult TextureOfElsewhere(const WireTarget& target) {
  return Try(target, &Texture, Within::kNothing);
}

WireResult TextureOfRowsElsewhere(const WireTarget& target) {
  return Try(target, &TextureOfRows, Within::kNothing);
}

// A box whose first row is the session's own, and whose second is not.
WireResult SecondRow(const WireTarget& target) {
  for (const uint64_t address : {uint64_t{0x555555554000}, uint64_t{0x7ffffffde000}}) {
    auto session = WireSession::Open(target);
    if (!session.ok()) return Unprepared(session.status());
    const uint64_t pitch = address - kOwn;
    const auto result =
        (*session)->Do(cmd::CopyBoxOnDevice{kStream, kOwn, 16, 32, kOwn, pitch, 0, 16, 2, 1});
    const WireResult judged = JudgeRefusal(result, "a row elsewhere");
    if (judged.outcome != WireOutcome::kStopped) return judged;
  }
  return Stopped("refused for its second row");
}

// Sizes whose product is small again.
WireResult SizesThatOverflow(const WireTarget& target) {
  const cmd::Memset set = {kStream, kOwn, (1ull << 62) + 1, 1, 4};
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  WireResult judged = JudgeRefusal((*session)->Do(set), "a memset");
  if (judged.outcome != WireOutcome::kStopped) return judged;
  session->reset();
  session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const uint64_t large = 1ull << 33;
  return JudgeRefusal((*session)->Do(cmd::MemsetRows{kStream, kOwn, large, large, large, 1, 1}),
                      "rows");
}

constexpr WireAttack kAttacks[] = {
    {"copy_from_elsewhere", "C1", "", &Run<&CopyFrom>},
    {"copy_to_elsewhere", "C1", "", &Run<&CopyTo>},
    {"copy_on_device_to_elsewhere", "C1", "", &Run<&CopyOnto>},
    {"copy_on_device_from_elsewhere", "C1", "", &Run<&CopyOutOf>},
    {"memset_elsewhere", "C1", "", &Run<&Set>},
    {"memset_of_rows_elsewhere", "C1", "", &Run<&SetRows>},
    {"box_to_elsewhere", "C1", "", &Run<&BoxTo>},
    {"box_from_elsewhere", "C1", "", &Run<&BoxFrom>},
    {"box_on_device_to_elsewhere", "C1", "", &Run<&BoxOnto>},
    {"box_on_device_from_elsewhere", "C1", "", &Run<&BoxOutOf>},
    {"box_with_a_row_elsewhere", "C1", "", &SecondRow},
    {"sizes_that_overflow", "C1", "", &SizesThatOverflow},
    {"word_written_elsewhere", "C1", "", &Run<&WriteWord>},
    {"word_waited_for_elsewhere", "C1", "", &Run<&WaitForWord>},
    {"array_filled_from_elsewhere", "C1", "", &Run<&ToArray>},
    {"array_copied_to_elsewhere", "C1", "", &Run<&FromArray>},
    {"texture_of_elsewhere", "C1", "", &TextureOfElsewhere},
    {"graph_that_sets_elsewhere", "C1", "", &Run<&GraphSet>},
    {"graph_that_copies_from_elsewhere", "C1", "", &Run<&GraphCopy>},
    {"second_word_written_elsewhere", "C1", "", &Run<&WriteSecondWord>},
    {"texture_of_rows_elsewhere", "C1", "", &TextureOfRowsElsewhere},
    {"graph_that_copies_to_elsewhere", "C1", "", &Run<&GraphCopyTo>},
    {"graph_that_sets_rows_elsewhere", "C1", "", &Run<&GraphSetRows>},
    {"graph_that_copies_a_box_to_elsewhere", "C1", "", &Run<&GraphBoxTo>},
    {"graph_that_copies_a_box_from_elsewhere", "C1", "", &Run<&GraphBoxFrom>},
    {"graph_that_writes_a_word_elsewhere", "C1", "", &Run<&GraphWriteWord>},
    {"kernel_that_stores_elsewhere", "C1", "", &Run<&KernelStore>},
    {"kernel_that_loads_from_elsewhere", "C1", "", &Run<&KernelLoad>},
};

}  // namespace

absl::Span<const WireAttack> AddressAttacks() { return kAttacks; }

}  // namespace warpline::attack
