// Code and what goes with it: images, modules, graphs, arrays, limits, printing, handles.
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_numbers.h"
#include "proto/frames.h"
#include "proto/graph_definition.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "tests/hostile/commands.h"

namespace warpline::attack {
namespace {

constexpr uint64_t kStream = kLegacyStreamHandle;
constexpr char kHead[] = ".version 7.0\n.target sm_52\n.address_size 64\n";

// Makes one attempt in a session of its own.
template <typename Attempt>
WireResult InSession(const WireTarget& target, const std::string& what, Attempt attempt) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  return JudgeRefusal(attempt(session->get()), what);
}

WireResult ImageOfHalfTheAddresses(const WireTarget& target) {
  return InSession(target, "an image of 2^63 bytes", [](WireSession* session) {
    return session->Do(cmd::ImageData{1, 1ull << 63, 0}, "x");
  });
}

WireResult ImageWithAPartBeyond(const WireTarget& target) {
  return InSession(target, "a part beyond the end", [](WireSession* session) {
    session->Add(cmd::ImageData{1, 16, 0}, std::string(8, 'x'));
    return session->Do(cmd::ImageData{1, 16, 8}, std::string(16, 'x'));
  });
}

WireResult ImageWithALaterPartFirst(const WireTarget& target) {
  return InSession(target, "a later part first", [](WireSession* session) {
    return session->Do(cmd::ImageData{1, 1 << 20, 1 << 19}, "x");
  });
}

WireResult ModuleOfHalfAnImage(const WireTarget& target) {
  return InSession(target, "half an image", [](WireSession* session) {
    session->Add(cmd::ImageData{1, 1 << 20, 0}, "x");
    return session->Do(cmd::ModuleLoad{2, 1});
  });
}

// A frame of zstd that is `blocks` times 128 KiB of one byte; each takes four bytes.
std::string ZstdBomb(int blocks) {
  constexpr uint32_t kRepeated = 1, kBlockBytes = 128 << 10;
  std::string frame("\x28\xb5\x2f\xfd\x00\x38", 6);
  for (int i = 1; i <= blocks; ++i) {
    const uint32_t head = (i == blocks ? 1 : 0) | kRepeated << 1 | kBlockBytes << 3;
    for (const uint32_t shift : {0, 8, 16}) frame.push_back(static_cast<char>(head >> shift));
    frame.push_back('x');
  }
  return frame;
}

WireResult CompressedPartThatGrows(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const auto small = (*session)->Do(cmd::ImageZstd{1, 128 << 10, 0, 128 << 10}, ZstdBomb(1));
  if (!small.ok() || *small != 0) return Unprepared("a small part is not taken");
  return JudgeRefusal((*session)->Do(cmd::ImageZstd{2, 512 << 20, 0, 512 << 20}, ZstdBomb(4096)),
                      "16 KiB that are 512 MiB");
}

WireResult ModuleOfGarbage(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  hostile::Random random(1);
  // As ELF, as a container, as text.
  for (const std::string& head :
       {std::string("\x7f"
                    "ELF\x02\x01\x01"),
        std::string("\x50\xed\x55\xba\x01\x00\x10\x00", 8), absl::StrCat(kHead, "{{")}) {
    for (uint64_t i = 0; i < 30; ++i) {
      std::string image = head;
      for (int b = 0; b < 400; ++b) image.push_back(static_cast<char>(1 + random() % 255));
      image.push_back('\0');
      const auto loaded = (*session)->Load(100 + i, image);
      if (loaded.ok() && *loaded == 0) return Succeeded("it loaded");
      if (loaded.ok()) continue;
      if (absl::IsDeadlineExceeded(loaded.status())) return Succeeded("no answer");
      session = WireSession::Open(target);
      if (!session.ok()) return Unprepared(session.status());
    }
  }
  return Stopped("90 images were refused");
}

// Variables of several gigabytes, beside whatever memory a session may have.
WireResult HugeVariables(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const uint64_t piece = 1ull << 30;
  const uint64_t quota = (*session)->welcome().quota_bytes();
  uint64_t got = 0;
  for (uint64_t module = 1; got <= quota; ++module) {
    const auto loaded =
        (*session)->Load(module, absl::StrCat(kHead, ".visible .global .b8 big[", piece, "];\n"));
    if (absl::IsDeadlineExceeded(loaded.status())) return Succeeded("no answer");
    if (!loaded.ok() || *loaded != 0) {
      return Stopped(absl::StrCat(got, " bytes of variables, the quota is ", quota));
    }
    got += piece;
  }
  return Succeeded(absl::StrCat(got, " bytes of variables beside a quota of ", quota));
}

WireResult HugeArray(const WireTarget& target) {
  return InSession(target, "an array of 2^60 bytes", [](WireSession* session) {
    return session->Call(cmd::ArrayCreate{5, 1ull << 30, 1ull << 28, 0, 0x20, 1, 0, 0});
  });
}

WireResult ArrayThatOverflows(const WireTarget& target) {
  return InSession(target, "an array whose size overflows", [](WireSession* session) {
    return session->Call(cmd::ArrayCreate{5, 1ull << 62, 8, 8, 0x20, 4, 0, 0});
  });
}

WireResult ArraysBeyondTheQuota(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const uint64_t quota = (*session)->welcome().quota_bytes();
  uint64_t got = 0;
  for (uint64_t handle = 1; got <= quota; ++handle) {
    // 256 MiB each.
    const auto made = (*session)->Call(cmd::ArrayCreate{handle, 8192, 8192, 0, 0x20, 1, 0, 0});
    if (absl::IsDeadlineExceeded(made.status())) return Succeeded("no answer");
    if (!made.ok() || *made != 0) {
      return got == 0 ? Unprepared("no array at all")
                      : Stopped(absl::StrCat(got, " bytes of arrays, the quota is ", quota));
    }
    got += 256 * kMiB;
  }
  return Succeeded(absl::StrCat(got, " bytes of arrays beside a quota of ", quota));
}

WireResult ArrayPartsOutside(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const auto made = (*session)->Call(cmd::ArrayCreate{5, 4, 4, 0, 0x20, 1, 0, 0});
  if (!made.ok() || *made != 0) return Unprepared("no array");
  cmd::CopyToArray copy;
  copy.stream = kStream;
  copy.array = 5;
  copy.x = 1ull << 40;
  copy.width = 16;
  copy.height = copy.depth = 1;
  return JudgeRefusal((*session)->Do(copy, std::string(16, 'x')), "a box beside its array");
}

WireResult BoxOfNoArray(const WireTarget& target) {
  return InSession(target, "a box of an array that there is not", [](WireSession* session) {
    cmd::CopyToArray copy;
    copy.stream = kStream;
    copy.array = 4711;
    copy.width = 16;
    copy.height = copy.depth = 1;
    return session->Do(copy, std::string(16, 'x'));
  });
}

WireResult HugeStack(const WireTarget& target) {
  return InSession(target, "a stack of 2^40 bytes", [](WireSession* session) {
    return session->Call(cmd::LimitSet{1ull << 40, 0, 0});
  });
}

WireResult LimitOfAnotherDevice(const WireTarget& target) {
  return InSession(target, "a limit of device 4711", [](WireSession* session) {
    return session->Call(cmd::LimitSet{4096, 0, 4711});
  });
}

absl::StatusOr<int> MakeGraph(WireSession* session, const std::string& definition) {
  session->Add(cmd::ImageData{1, definition.size(), 0}, definition);
  const auto made = session->Call(cmd::GraphCreate{2, 1});
  if (!made.ok() || *made != 0) return made;
  return session->Do(cmd::GraphLaunch{kStream, 2});
}

WireResult GraphOfForeignHandles(const WireTarget& target) {
  return InSession(target, "a kernel that there is not", [](WireSession* session) {
    const cmd::Launch launch = {0, 4711, 1, 1, 1, 1, 1, 1, 0, 0};
    std::string definition;
    AppendGraphStep(static_cast<uint32_t>(CommandId::kLaunch), {},
                    {reinterpret_cast<const char*>(&launch), sizeof(launch)}, "", &definition);
    return MakeGraph(session, definition);
  });
}

WireResult GraphOfLaterSteps(const WireTarget& target) {
  return InSession(target, "a step after itself", [](WireSession* session) {
    std::string definition;
    AppendGraphStep(0, {0}, "", "", &definition);
    return MakeGraph(session, definition);
  });
}

WireResult GraphOfOtherCommands(const WireTarget& target) {
  return InSession(target, "a command that is no step", [](WireSession* session) {
    const cmd::LimitSet limit = {1, 0, 0};
    std::string definition;
    AppendGraphStep(static_cast<uint32_t>(CommandId::kLimitSet), {},
                    {reinterpret_cast<const char*>(&limit), sizeof(limit)}, "", &definition);
    return MakeGraph(session, definition);
  });
}

WireResult GraphOfGarbage(const WireTarget& target) {
  return InSession(target, "garbage", [](WireSession* session) {
    return MakeGraph(session, std::string(4096, '\x7f'));
  });
}

WireResult GraphWithManyBodies(const WireTarget& target) {
  return InSession(target, "a step with 2^32 bodies", [](WireSession* session) {
    const ConditionalStep step = {1, 0, ~0u};
    std::string definition;
    AppendGraphStep(kConditionalStep, {}, {reinterpret_cast<const char*>(&step), sizeof(step)}, "",
                    &definition);
    return MakeGraph(session, definition);
  });
}

// After a session that would never end by itself: a neighbour is served beside it, and it ends when
// its client goes.
WireResult JudgeEndless(const WireTarget& target, const std::set<pid_t>& before,
                        std::unique_ptr<WireSession> session, const char* what) {
  const WireResult served = JudgeNeighbour(target, what);
  if (served.outcome != WireOutcome::kStopped) return served;
  session.reset();
  return JudgeLeftovers(target, before);
}

WireResult EndlessKernel(const WireTarget& target) {
  const std::set<pid_t> before = Workers(target);
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const auto loaded =
      (*session)->Load(1, absl::StrCat(kHead, ".visible .entry spin()\n{\nL:\n  bra L;\n}\n"));
  if (!loaded.ok() || *loaded != 0) return Unprepared("it does not load");
  const auto found = (*session)->Call(cmd::KernelFind{2, 1}, "spin");
  if (!found.ok() || *found != 0) return Unprepared("no kernel");
  (*session)->Add(cmd::Launch{kStream, 2, 1, 1, 1, 1, 1, 1, 0, 0});
  (*session)->Submit();
  return JudgeEndless(target, before, *std::move(session), "an endless kernel");
}

// Launches kernel 2, which is declared so and does nothing.
WireResult WithKernel(const WireTarget& target, const std::string& declared, const char* what,
                      const cmd::Launch& launch, const char* params) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const auto loaded =
      (*session)->Load(1, absl::StrCat(kHead, ".visible .entry ", declared, "\n{\n  ret;\n}\n"));
  if (!loaded.ok() || *loaded != 0) return Unprepared("it does not load");
  const auto found =
      (*session)->Call(cmd::KernelFind{2, 1}, declared.substr(0, declared.find('(')));
  if (!found.ok() || *found != 0) return Unprepared("no kernel");
  return JudgeRefusal((*session)->Do(launch, params), what);
}

WireResult LaunchThatOverflows(const WireTarget& target) {
  return WithKernel(target, "nothing()", "a grid of 2^96 blocks",
                    cmd::Launch{kStream, 2, ~0u, ~0u, ~0u, 1024, 1024, 64, ~0u, 0}, "");
}

WireResult FewerParametersThanTheKernelHas(const WireTarget& target) {
  return WithKernel(target, "one(.param .align 8 .b8 p[4000])", "a launch without its parameters",
                    cmd::Launch{kStream, 2, 1, 1, 1, 1, 1, 1, 0, 0}, "x");
}

// Handles that are never used: a session may have so many and no more, which are fewer than these.
template <typename Command>
WireResult ManyHandles(const WireTarget& target, const char* what, uint64_t count,
                       Command (*make)(uint64_t handle)) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const Footprint before = Measure(target);
  for (uint64_t i = 0; i < count; ++i) {
    (*session)->Add(make(16 + i));
    if ((*session)->pending_bytes() > 500'000) (*session)->Submit();
  }
  auto synced = (*session)->Call(cmd::ContextSync{});
  // What it says of refusals may come after the answer, and on a busy machine well after.
  const absl::Time until = absl::Now() + kPatience;
  while (synced.ok() && (*session)->failures() == 0 && absl::Now() < until) {
    synced = (*session)->Call(cmd::ContextSync{});
  }
  if (synced.ok() && (*session)->failures() == 0) {
    return Succeeded(absl::StrCat(what, ": none of ", count, " was refused"));
  }
  const WireResult served = JudgeNeighbour(target, what);
  if (served.outcome != WireOutcome::kStopped) return served;
  WireResult grown = JudgeGrowth(target, before, {128 << 10, 500, 200, 200'000});
  absl::StrAppend(&grown.detail, "; ",
                  synced.ok() ? absl::StrCat((*session)->failures(), " were refused")
                              : std::string(synced.status().message()));
  return grown;
}

WireResult ManyStreams(const WireTarget& target) {
  return ManyHandles<cmd::StreamCreate>(target, "1200 streams", 1200, [](uint64_t handle) {
    return cmd::StreamCreate{handle, 1, 0};
  });
}

WireResult ManyEvents(const WireTarget& target) {
  return ManyHandles<cmd::EventCreate>(target, "more than a million events", 1'200'000,
                                       [](uint64_t handle) {
                                         return cmd::EventCreate{handle, 0, 0};
                                       });
}

WireResult ManyImages(const WireTarget& target) {
  return ManyHandles<cmd::ImageData>(target, "images of 2 GiB that never come", 50'000,
                                     [](uint64_t handle) {
                                       return cmd::ImageData{handle, 2ull << 30, 0};
                                     });
}

// Waits for something that comes only if the client says so, and never does.
WireResult HostCallsThatNeverCome(const WireTarget& target) {
  const std::set<pid_t> before = Workers(target);
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  for (uint64_t i = 0; i < 10'000; ++i) (*session)->Add(cmd::HostCall{kStream, i});
  (*session)->Add(cmd::StreamSync{kStream});
  (*session)->Submit();
  return JudgeEndless(target, before, *std::move(session),
                      "ten thousand host calls that never end");
}

WireResult LinkOfGarbage(const WireTarget& target) {
  return InSession(target, "linking garbage", [](WireSession* session) {
    const std::string image(4096, '\x7f');
    session->Add(cmd::ImageData{1, image.size(), 0}, image);
    const auto made = session->Call(cmd::LinkCreate{2});
    if (!made.ok() || *made != 0) return made;
    const auto added = session->Call(cmd::LinkAdd{2, 1, 1, 4}, "name");
    if (!added.ok() || *added != 0) return added;
    return session->Call(cmd::LinkComplete{2});
  });
}

WireResult LinkNameBeyondItsCommand(const WireTarget& target) {
  return InSession(target, "a name of 4 GiB", [](WireSession* session) {
    session->Add(cmd::ImageData{1, 16, 0}, std::string(16, 'x'));
    const auto made = session->Call(cmd::LinkCreate{2});
    if (!made.ok() || *made != 0) return made;
    return session->Call(cmd::LinkAdd{2, 1, 1, ~0u}, "name");
  });
}

constexpr WireAttack kAttacks[] = {
    {"image_of_half_the_addresses", "M3", "", &ImageOfHalfTheAddresses},
    {"image_with_a_part_beyond_its_end", "-", "", &ImageWithAPartBeyond},
    {"image_with_a_later_part_first", "-", "", &ImageWithALaterPartFirst},
    {"module_of_half_an_image", "-", "", &ModuleOfHalfAnImage},
    {"compressed_part_that_is_a_bomb", "M3", "", &CompressedPartThatGrows},
    {"modules_of_garbage", "L5", "", &ModuleOfGarbage},
    {"variables_beyond_the_quota", "H3", "", &HugeVariables},
    {"array_of_2_to_the_60", "-", "", &HugeArray},
    {"array_whose_size_overflows", "-", "", &ArrayThatOverflows},
    {"arrays_beyond_the_quota", "M11", "", &ArraysBeyondTheQuota},
    {"box_beside_its_array", "C1", "", &ArrayPartsOutside},
    {"box_of_an_array_that_there_is_not", "-", "", &BoxOfNoArray},
    {"stack_of_a_terabyte", "H3", "", &HugeStack},
    {"limit_of_another_device", "H3", "", &LimitOfAnotherDevice},
    {"graph_of_a_kernel_that_there_is_not", "L10", "", &GraphOfForeignHandles},
    {"graph_with_a_circle", "-", "", &GraphOfLaterSteps},
    {"graph_of_other_commands", "-", "", &GraphOfOtherCommands},
    {"graph_of_garbage", "-", "", &GraphOfGarbage},
    {"graph_of_4_billion_bodies", "-", "", &GraphWithManyBodies},
    {"endless_kernel", "M17", "", &EndlessKernel},
    {"launch_that_overflows", "-", "", &LaunchThatOverflows},
    {"launch_without_its_parameters", "-", "", &FewerParametersThanTheKernelHas},
    {"more_streams_than_a_session_may_have", "H2", "", &ManyStreams},
    {"a_million_events", "M3", "", &ManyEvents},
    {"images_that_never_come", "M3", "", &ManyImages},
    {"host_calls_that_never_end", "M9", "", &HostCallsThatNeverCome},
    {"link_of_garbage", "L5", "", &LinkOfGarbage},
    {"link_with_a_name_beyond_its_command", "-", "", &LinkNameBeyondItsCommand},
};

}  // namespace

absl::Span<const WireAttack> CodeAttacks() { return kAttacks; }

}  // namespace warpline::attack
