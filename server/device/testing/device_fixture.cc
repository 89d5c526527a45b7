#include "server/device/testing/device_fixture.h"

#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "server/hostlink/backends/backend_names.h"

namespace warpline::device {
namespace {

// ThreadSanitizer leaves programs little of the address space; the last base is one that it allows.
constexpr uint64_t kArenaBases[] = {0x300000000000, 0x340000000000, 0x7e9000000000};

constexpr char kPtx[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0};
.visible .const .align 4 .u32 factor = 3;

// out[i] = in[i] * factor + table[i & 3]
.visible .entry scale(.param .u64 out, .param .u64 in, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<12>;
  .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [in];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u32 %r6, [%rd4];
  ld.const.u32 %r7, [factor];
  and.b32 %r8, %r5, 3;
  mul.wide.u32 %rd5, %r8, 4;
  mov.u64 %rd6, table;
  add.s64 %rd7, %rd6, %rd5;
  ld.global.u32 %r9, [%rd7];
  mad.lo.s32 %r10, %r6, %r7, %r9;
  add.s64 %rd8, %rd1, %rd3;
  st.global.u32 [%rd8], %r10;
DONE:
  ret;
}

// Spins until *flag is not 0, then stores 1 behind it.
.visible .entry spin(.param .u64 flag)
{
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [flag];
  cvta.to.global.u64 %rd1, %rd1;
AGAIN:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  mov.u32 %r2, 1;
  st.global.u32 [%rd1+4], %r2;
  ret;
}

.visible .entry store(.param .u64 where)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [where];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, 42;
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

}  // namespace

std::vector<std::string> DeviceFixture::Backends() {
  std::vector<std::string> names;
  for (const BackendName& backend : BackendNames()) names.emplace_back(backend.name);
  return names;
}

std::string_view DeviceFixture::Ptx() { return kPtx; }

void DeviceFixture::SetUp() {
  absl::StatusOr<std::unique_ptr<Backend>> backend = OpenBackend(GetParam());
  if (!backend.ok()) GTEST_SKIP() << backend.status();
  backend_ = *std::move(backend);
  auto chunks = backend_->OpenChunkSource(0);
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  chunks_ = *std::move(chunks);
  auto context = backend_->OpenContext(0);
  ASSERT_TRUE(context.ok()) << context.status();
  context_ = *std::move(context);
  for (const uint64_t base : kArenaBases) {
    if (context_->ReserveArena(base, kArenaBytes) == CudaResult::kSuccess) {
      base_ = base;
      break;
    }
  }
  ASSERT_NE(base_, 0u);
  auto fd = chunks_->CreateChunk(2 * kMiB);
  ASSERT_TRUE(fd.ok()) << fd.status();
  fd_ = *std::move(fd);
  ASSERT_EQ(context_->MapChunk(base_ + 2 * kMiB, 2 * kMiB, fd_.get()), CudaResult::kSuccess);
  memory_ = base_ + 2 * kMiB;
  ASSERT_EQ(context_->AllocStaging(kStagingBytes, &staging_), CudaResult::kSuccess);
}

void DeviceFixture::TearDown() {
  if (staging_ != nullptr) context_->FreeStaging(staging_);
  // Unmapped so that the next test finds the arena's addresses free.
  if (memory_ != 0) context_->UnmapChunk(memory_, 2 * kMiB);
}

CudaResult DeviceFixture::Sync(StreamId stream) {
  EventId event;
  CudaResult result = context_->CreateEvent(2, &event);
  if (result != CudaResult::kSuccess) return result;
  result = context_->RecordEvent(event, stream);
  if (result == CudaResult::kSuccess) result = WaitFor(event);
  context_->DestroyEvent(event);
  return result;
}

CudaResult DeviceFixture::WaitFor(EventId event) {
  while (true) {
    const CudaResult result = context_->QueryEvent(event);
    if (result != CudaResult::kNotReady) return result;
    std::this_thread::yield();
  }
}

std::vector<uint32_t> DeviceFixture::Read(uint64_t address, size_t count) {
  EXPECT_EQ(context_->CopyFromDevice(staging_, address, count * 4, kLegacyStream),
            CudaResult::kSuccess);
  EXPECT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
  const auto* words = static_cast<const uint32_t*>(staging_);
  return {words, words + count};
}

void DeviceFixture::Write(uint64_t address, const std::vector<uint32_t>& words, StreamId stream) {
  ASSERT_EQ(context_->CopyToDevice(address, words.data(), words.size() * 4, stream),
            CudaResult::kSuccess);
}

KernelId DeviceFixture::Find(const char* name) {
  if (module_ == ModuleId{}) {
    EXPECT_EQ(context_->LoadModule(kPtx, &module_), CudaResult::kSuccess);
  }
  KernelId kernel{};
  EXPECT_EQ(context_->FindKernel(module_, name, &kernel), CudaResult::kSuccess);
  return kernel;
}

}  // namespace warpline::device
