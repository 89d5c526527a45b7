// Tests what a worker makes of a compiler's answers, of which the layout may come from a stage that
// a tenant has taken over.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/packets/packet_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "guard/guard.h"
#include "server/compiler/client/compiler_client.h"
#include "server/compiler/frozen_file.h"
#include "server/compiler/layout_format.h"
#include "server/device/device.h"
#include "server/worker/code/guarded_modules.h"

namespace warpline::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kGiB = uint64_t{1} << 30;
// The last base is one that ThreadSanitizer allows.
constexpr uint64_t kBases[] = {0x300000000000, 0x200000000000, 0x7e9000000000};

constexpr char kText[] = R"(.version 8.0
.target sm_75
.address_size 64
.global .align 4 .b32 counter = 40;
.const .align 4 .b32 step = 2;
.visible .entry count(.param .u64 out)
{
  .reg .b32 %r<4>;
  ld.global.u32 %r1, [counter];
  ld.const.u32 %r2, [step];
  add.u32 %r1, %r1, %r2;
  st.global.u32 [counter], %r1;
  ret;
}
)";

constexpr char kLocalText[] = R"(.version 8.0
.target sm_75
.address_size 64
.visible .entry keeps(.param .u32 at)
{
  .local .align 4 .b8 kept[4096];
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u32 %r1, [at];
  cvt.u64.u32 %rd1, %r1;
  mov.u64 %rd2, kept;
  add.u64 %rd3, %rd1, %rd2;
  st.local.u32 [%rd3], %r1;
  ret;
}
)";

// What a compiler answers.
struct Answer {
  absl::Status status;
  std::string code = {};
  std::string layout = {};
};

Answer Honest(const compiler::CompileRequest& request, const char* text = kText) {
  const auto guarded = guard::Guard(text, {.arena_bits = static_cast<int>(request.arena_bits),
                                           .hardened = request.hardened != 0});
  return {absl::OkStatus(), guarded->text, compiler::LayoutBytes(*guarded)};
}

// Answers one request.
void Serve(const UniqueFd& socket,
           const std::function<Answer(const compiler::CompileRequest&)>& answer) {
  compiler::CompileRequest request;
  std::vector<UniqueFd> fds;
  if (!compiler::ReceiveRecord(socket.get(), &request, sizeof(request), &fds).ok()) return;
  const Answer given = answer(request);
  compiler::CompileReply reply;
  reply.code = static_cast<int32_t>(given.status.code());
  reply.reason_bytes =
      static_cast<uint32_t>(given.status.message().copy(reply.reason, sizeof(reply.reason)));
  const auto code = compiler::FrozenFile("code", given.code);
  const auto layout = compiler::FrozenFile("layout", given.layout);
  std::vector<int> files;
  if (given.status.ok()) files = {code->get(), layout->get()};
  EXPECT_TRUE(compiler::SendRecord(socket.get(), &reply, sizeof(reply), files).ok());
}

class CompiledModulesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto backend = device::OpenBackend("cpu");
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    auto contexts = backend_->OpenContexts({0});
    ASSERT_TRUE(contexts.ok()) << contexts.status();
    contexts_ = *std::move(contexts);
    for (const uint64_t base : kBases) {
      if (contexts_[0]->ReserveArena(base, 4 * kGiB) != CudaResult::kSuccess) continue;
      arena_ = base;
      break;
    }
    ASSERT_NE(arena_, 0u);
  }

  // Loads the module with a compiler that answers so, `times` times without unloading it; returns
  // the last result.
  CudaResult Load(const std::function<Answer(const compiler::CompileRequest&)>& answer,
                  int times = 1) {
    auto pair = PacketSocketPair();
    compiler::CompilerClient client(std::move(pair->first));
    std::thread peer([&, socket = std::move(pair->second)] {
      for (int i = 0; i < times; ++i) Serve(socket, answer);
    });
    GuardedModules::Options options;
    options.sm = 90;
    options.mode = GuardMode::kHardened;
    options.window = GuardWindowOf(arena_, 4 * kGiB);
    options.part_base = arena_;
    options.part_bytes = 4 * kGiB;
    options.most_local_bytes = most_local_bytes_;
    options.shared = shared_;
    options.shared_room_bytes = 64u << 20;
    options.compiler = &client;
    options.output = compiler::Output::kText;
    modules_ = std::make_unique<GuardedModules>(contexts_[0].get(), options, &notes_);
    modules_->SetCodePayer(payer_);
    CudaResult result = CudaResult::kUnknown;
    for (int i = 0; i < times; ++i) result = modules_->LoadModule(image_, &module_);
    peer.join();
    return result;
  }
  // The same with this in place of the honest layout.
  CudaResult LoadWith(const std::function<void(guard::GuardedText*)>& change, int times = 1) {
    return Load(
        [&](const compiler::CompileRequest& request) {
          Answer answer = Honest(request);
          auto layout = compiler::ParseLayout(answer.layout);
          change(&*layout);
          answer.layout = compiler::LayoutBytes(*layout);
          return answer;
        },
        times);
  }

  std::unique_ptr<device::Backend> backend_;
  std::vector<std::unique_ptr<device::Context>> contexts_;
  uint64_t arena_ = 0;
  uint64_t most_local_bytes_ = 0;
  bool shared_ = false;
  std::string image_ = kText;
  device::CodePayer* payer_ = nullptr;
  GuardNotes notes_;
  std::unique_ptr<GuardedModules> modules_;
  device::ModuleId module_{};
};

TEST_F(CompiledModulesTest, WhatTheCompilerGivesIsLoaded) {
  ASSERT_EQ(Load([](const compiler::CompileRequest& request) {
              EXPECT_EQ(request.sm, 90u);
              EXPECT_EQ(request.hardened, 1u);
              EXPECT_EQ(request.output, compiler::Output::kText);
              return Honest(request);
            }),
            CudaResult::kSuccess);
  uint64_t address = 0, bytes = 0;
  EXPECT_EQ(modules_->FindGlobal(module_, "counter", &address, &bytes), CudaResult::kSuccess);
  EXPECT_GE(address, arena_);
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(modules_->FindGlobal(module_, "step", &address, &bytes), CudaResult::kSuccess);
  EXPECT_THAT(notes_.Take(), IsEmpty());
}

TEST_F(CompiledModulesTest, ARefusalIsNotedAndNothingElseIsTried) {
  EXPECT_EQ(Load([](const compiler::CompileRequest&) {
              return Answer{absl::InvalidArgumentError("the verifier: line 7: no\x1b[2J")};
            }),
            CudaResult::kInvalidPtx);
  EXPECT_THAT(notes_.Take(), ElementsAre("a module is refused: the verifier: line 7: no\\033[2J"));
}

TEST_F(CompiledModulesTest, AStageThatReachedALimitIsARefusal) {
  EXPECT_EQ(Load([](const compiler::CompileRequest&) {
              return Answer{absl::ResourceExhaustedError("the compiler takes longer than 5m")};
            }),
            CudaResult::kInvalidPtx);
  EXPECT_THAT(notes_.Take(), ElementsAre(HasSubstr("takes longer than 5m")));
}

TEST_F(CompiledModulesTest, WithoutALibraryTheWorkerGuards) {
  EXPECT_EQ(Load([](const compiler::CompileRequest&) {
              return Answer{absl::UnimplementedError("no compiler was found")};
            }),
            CudaResult::kSuccess);
  EXPECT_THAT(notes_.Take(), IsEmpty());
}

TEST_F(CompiledModulesTest, ALayoutThatLeadsElsewhereIsNotTaken) {
  EXPECT_NE(LoadWith([](guard::GuardedText* layout) {
              layout->layout.globals.at(0).offset = uint64_t{1} << 30;
            }),
            CudaResult::kSuccess);
  // Within what any module may have of constants, but not within this one's.
  EXPECT_EQ(
      LoadWith([](guard::GuardedText* layout) { layout->layout.consts.at(0).offset = 60000; }),
      CudaResult::kInvalidImage);
  EXPECT_EQ(LoadWith([](guard::GuardedText* layout) {
              layout->layout.globals_bytes = uint64_t{1} << 40;
            }),
            CudaResult::kOutOfMemory);
  EXPECT_EQ(LoadWith([](guard::GuardedText*) {}), CudaResult::kSuccess);
}

TEST_F(CompiledModulesTest, AKernelWithMoreLocalMemoryThanThereIsReadyIsRefused) {
  const auto answer = [](const compiler::CompileRequest& request) {
    return Honest(request, kLocalText);
  };
  device::KernelId kernel{};
  most_local_bytes_ = 16 << 10;
  ASSERT_EQ(Load(answer), CudaResult::kSuccess);
  EXPECT_EQ(modules_->FindKernel(module_, "keeps", &kernel), CudaResult::kSuccess);
  most_local_bytes_ = 4095;
  ASSERT_EQ(Load(answer), CudaResult::kSuccess);
  EXPECT_EQ(modules_->FindKernel(module_, "keeps", &kernel), CudaResult::kLaunchOutOfResources);
  EXPECT_THAT(notes_.Take(),
              ElementsAre(HasSubstr("kernel keeps is refused: a thread of it takes")));
}

TEST_F(CompiledModulesTest, OfASharedDeviceTheCompilerAloneLooksIntoTheImage) {
  shared_ = true;
  image_ = "whatever a tenant sends";
  ASSERT_EQ(Load([](const compiler::CompileRequest& request) {
              EXPECT_EQ(request.source, compiler::Source::kImage);
              return Honest(request);
            }),
            CudaResult::kSuccess);
  std::vector<std::string> names;
  EXPECT_TRUE(modules_->WritableVariables(module_, &names));
  EXPECT_THAT(names, ElementsAre("counter"));
  EXPECT_EQ(Load([](const compiler::CompileRequest&) {
              return Answer{absl::NotFoundError("it has machine code alone, and no PTX")};
            }),
            CudaResult::kNoBinaryForGpu);
  EXPECT_THAT(notes_.Take(),
              ElementsAre("a module is refused: it has machine code alone, and no PTX"));
}

// A few kilobytes of compressed PTX can have very many kernels with very long names, all of them
// refused, and be loaded over and over.
TEST_F(CompiledModulesTest, NamesOfAllModulesHaveABound) {
  const auto many = [](guard::GuardedText* guarded) {
    for (int i = 0; i < 250; ++i) {
      guarded->refusals.push_back({absl::StrCat(i, std::string(16'000, 'n')), "f", "line 1: no"});
    }
  };
  EXPECT_EQ(LoadWith(many, 4), CudaResult::kSuccess);
  EXPECT_THAT(notes_.Take(), IsEmpty());
  EXPECT_EQ(LoadWith(many, 5), CudaResult::kOutOfMemory);
  EXPECT_THAT(notes_.Take(), ElementsAre(HasSubstr("names and reasons of")));
}

class Purse : public device::CodePayer {
 public:
  CudaResult TakeCode(uint64_t bytes) override {
    if (bytes > left) return CudaResult::kOutOfMemory;
    left -= bytes;
    return CudaResult::kSuccess;
  }
  void GiveCode(uint64_t bytes) override { left += bytes; }
  uint64_t left = 0;
};

TEST_F(CompiledModulesTest, CodeIsPaidForUntilItIsUnloaded) {
  uint64_t code_bytes = 0;
  const auto answer = [&](const compiler::CompileRequest& request) {
    Answer honest = Honest(request);
    code_bytes = honest.code.size();
    return honest;
  };
  Purse purse;
  purse.left = 1 << 20;
  payer_ = &purse;
  ASSERT_EQ(Load(answer, 2), CudaResult::kSuccess);
  EXPECT_EQ(purse.left, (1u << 20) - 2 * code_bytes);
  EXPECT_EQ(modules_->UnloadModule(module_), CudaResult::kSuccess);
  EXPECT_EQ(purse.left, (1u << 20) - code_bytes);
  purse.left = 2 * code_bytes + 1;
  EXPECT_EQ(Load(answer, 3), CudaResult::kOutOfMemory);
  EXPECT_EQ(purse.left, 1u);
  // What does not load after all is not paid for.
  purse.left = 1 << 20;
  EXPECT_NE(
      LoadWith([](guard::GuardedText* layout) { layout->layout.consts.at(0).offset = 60000; }),
      CudaResult::kSuccess);
  EXPECT_EQ(purse.left, 1u << 20);
}

TEST_F(CompiledModulesTest, CodeThatIsNotGuardedIsNotTaken) {
  EXPECT_NE(Load([](const compiler::CompileRequest& request) {
              Answer answer = Honest(request);
              answer.code = kText;  // It has no place for the guard's words.
              return answer;
            }),
            CudaResult::kSuccess);
}

}  // namespace
}  // namespace warpline::worker
