// Tests how module images come to a session's worker.
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "server/hostlink/handover/host_bytes.h"
#include "server/worker/memory/host_memory.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

// Keeps what it is offered under the hash of its content.
class FakeCache : public ImageCache {
 public:
  UniqueFd Find(const ContentHash& hash, uint64_t bytes) override {
    ++asked;
    const auto found = images.find(hash);
    if (found == images.end() || found->second.size() != bytes) return UniqueFd();
    UniqueFd memory(memfd_create("test", MFD_CLOEXEC));
    EXPECT_EQ(write(memory.get(), found->second.data(), bytes), static_cast<ssize_t>(bytes));
    return memory;
  }
  void Keep(int image, uint64_t bytes) override {
    std::string content(bytes, '\0');
    EXPECT_EQ(pread(image, content.data(), bytes, 0), static_cast<ssize_t>(bytes));
    ContentHash hash;
    EXPECT_TRUE(HashContent(content, &hash));
    images[hash] = content;
    ++kept;
  }
  std::map<ContentHash, std::string> images;
  int asked = 0;
  int kept = 0;
};

class FakeRecord : public ModuleRecord {
 public:
  void OnLoaded(const ContentHash& hash, uint64_t bytes) override {
    loaded.emplace_back(HashText(hash), bytes);
  }
  std::vector<std::pair<std::string, uint64_t>> loaded;
};

class SessionImagesTest : public SessionTest {
 protected:
  SessionImagesTest() { session_->UseImageCache(&cache_); }

  static cmd::ImageFind FindOf(uint64_t image, const std::string& bytes) {
    cmd::ImageFind find = {image, bytes.size()};
    ContentHash hash;
    EXPECT_TRUE(HashContent(bytes, &hash));
    std::memcpy(find.sha256, hash.data(), sizeof(find.sha256));
    return find;
  }

  // Returns the result of a look-up in a module made of `image`.
  CudaResult Load(uint64_t image) {
    const uint64_t module = next_handle_++;
    Add(cmd::ModuleLoad{module, image});
    const uint64_t found = Add(cmd::KernelFind{next_handle_++, module}, "kernel");
    EXPECT_TRUE(Send().ok());
    CudaResult result = CudaResult::kUnknown;
    replies_.Wait(found, &result);
    return result;
  }

  bool Failed(uint64_t seq) { return replies_.Has(ReplyId::kFailed, seq); }

  FakeCache cache_;
  uint64_t next_handle_ = 100;
  const std::string image_ = std::string(40'000, 'i');
};

TEST_F(SessionImagesTest, AnImageThatTheServerLacksIsSentAndIsThereNextTime) {
  Add(FindOf(1, image_));
  EXPECT_EQ(Load(1), CudaResult::kNotReady);
  EXPECT_EQ(cache_.kept, 0);
  Add(cmd::ImageData{2, image_.size(), 0}, image_);
  EXPECT_EQ(Load(2), CudaResult::kSuccess);
  EXPECT_EQ(cache_.kept, 1);
  Add(FindOf(3, image_));
  EXPECT_EQ(Load(3), CudaResult::kSuccess);
  EXPECT_EQ(cache_.asked, 2);
  // An image that came from there is not offered again.
  EXPECT_EQ(cache_.kept, 1);
}

TEST_F(SessionImagesTest, EveryQuestionAboutAMissingImageSaysSo) {
  Add(FindOf(1, image_));
  Add(cmd::ModuleLoad{2, 1});
  const uint64_t questions[] = {Add(cmd::ModuleCheck{2}), Add(cmd::ModuleJitLog{2}),
                                Add(cmd::ModuleKernels{2, 0, 0}),
                                Add(cmd::GlobalFind{2}, "global")};
  const uint64_t unload = Add(cmd::ModuleUnload{2});
  ASSERT_TRUE(Send().ok());
  for (const uint64_t seq : questions) {
    CudaResult result = CudaResult::kSuccess;
    replies_.Wait(seq, &result);
    EXPECT_EQ(result, CudaResult::kNotReady);
  }
  EXPECT_FALSE(Failed(unload));
}

TEST_F(SessionImagesTest, WithoutACacheEveryImageIsMissing) {
  session_->UseImageCache(nullptr);
  Add(FindOf(1, image_));
  EXPECT_EQ(Load(1), CudaResult::kNotReady);
  EXPECT_EQ(cache_.asked, 0);
}

TEST_F(SessionImagesTest, SmallImagesAreNeitherAskedForNorKept) {
  const std::string small(kMinCachedImage - 1, 's');
  Add(FindOf(1, small));
  EXPECT_EQ(Load(1), CudaResult::kNotReady);
  Add(cmd::ImageData{2, small.size(), 0}, small);
  EXPECT_EQ(Load(2), CudaResult::kSuccess);
  EXPECT_EQ(cache_.asked + cache_.kept, 0);
}

TEST_F(SessionImagesTest, WhatTheCacheDoesNotSeeIsRecordedByItsHash) {
  FakeRecord record;
  session_->RecordModules(&record);
  const std::string small(kMinCachedImage - 1, 's');
  const auto expected = [](const std::string& image) {
    ContentHash hash;
    EXPECT_TRUE(HashContent(image, &hash));
    return std::pair<std::string, uint64_t>(HashText(hash), image.size());
  };
  Add(cmd::ImageData{1, small.size(), 0}, small);
  EXPECT_EQ(Load(1), CudaResult::kSuccess);
  // What is offered or comes from the cache the server hashes itself; what fails is not loaded.
  Add(cmd::ImageData{2, image_.size(), 0}, image_);
  EXPECT_EQ(Load(2), CudaResult::kSuccess);
  Add(FindOf(3, image_));
  EXPECT_EQ(Load(3), CudaResult::kSuccess);
  const std::string bad = "bad" + small.substr(3);
  Add(cmd::ImageData{4, bad.size(), 0}, bad);
  EXPECT_EQ(Load(4), CudaResult::kInvalidImage);
  EXPECT_EQ(record.loaded, std::vector{expected(small)});
  // Without a cache it is told of all.
  Restart(SessionLimits());
  replies_.Clear();
  session_->RecordModules(&record);
  Add(cmd::ImageData{1, image_.size(), 0}, image_);
  EXPECT_EQ(Load(1), CudaResult::kSuccess);
  EXPECT_EQ(record.loaded, (std::vector{expected(small), expected(image_)}));
  session_.reset();
}

TEST_F(SessionImagesTest, WhatDoesNotLoadIsNotKept) {
  const std::string bad = "bad" + image_;
  Add(cmd::ImageData{1, bad.size(), 0}, bad);
  EXPECT_EQ(Load(1), CudaResult::kInvalidImage);
  EXPECT_EQ(cache_.kept, 0);
}

TEST_F(SessionImagesTest, ImagesFromTheCacheCountLikeThoseThatAreSent) {
  SessionLimits limits;
  limits.max_module_bytes = 2 * image_.size() - 1;
  Restart(limits);
  session_->UseImageCache(&cache_);
  Add(cmd::ImageData{1, image_.size(), 0}, image_);
  EXPECT_EQ(Load(1), CudaResult::kSuccess);  // Module 100.
  // The image is in the cache, but there is no room for it; sending it fails for the same reason.
  Add(FindOf(2, image_));
  EXPECT_EQ(Load(2), CudaResult::kNotReady);
  const uint64_t sent = Add(cmd::ImageData{3, image_.size(), 0}, image_);
  ASSERT_TRUE(Send().ok());
  EXPECT_TRUE(Failed(sent));
  Add(cmd::ModuleUnload{100});
  Add(FindOf(4, image_));
  EXPECT_EQ(Load(4), CudaResult::kSuccess);
  // An image that is missing uses up nothing.
  Add(cmd::ModuleUnload{104});
  for (uint64_t i = 10; i < 20; ++i) {
    Add(FindOf(i, std::string(30'000, 'x')));
    EXPECT_EQ(Load(i), CudaResult::kNotReady);
  }
  Add(FindOf(5, image_));
  EXPECT_EQ(Load(5), CudaResult::kSuccess);
}

// Otherwise a client that loads and unloads behind a stream that waits for it would fill the memory
// of the process, which others may share.
TEST_F(SessionImagesTest, ImagesOfUnloadedModulesCountUntilTheyAreGone) {
  SessionLimits limits;
  limits.max_module_bytes = 4 * image_.size();
  Restart(limits);
  Add(cmd::ImageData{1, image_.size(), 0}, image_);
  EXPECT_EQ(Load(1), CudaResult::kSuccess);  // Module 100.
  AddStream(20);
  Add(cmd::HostCall{20, 5});
  Add(cmd::ModuleUnload{100});  // Waits for the stream, and so does what comes after it.
  uint64_t refused = 0;
  for (uint64_t i = 0; i < 100 && refused == 0; ++i) {
    const uint64_t sent = Add(cmd::ImageData{1000 + i, image_.size(), 0}, image_);
    Add(cmd::ModuleLoad{2000 + i, 1000 + i});
    Add(cmd::ModuleUnload{2000 + i});
    ASSERT_TRUE(Send().ok());
    if (Failed(sent)) refused = i;
  }
  EXPECT_GE(refused, 4u);  // As much may leave as may be there.
  EXPECT_LE(refused, 6u);
  Add(cmd::HostDone{5});
  const uint64_t all = Add(cmd::LimitGet{});  // The executor of the loads answers this.
  ASSERT_TRUE(Send().ok());
  replies_.Wait(all);
  Add(cmd::ImageData{2, image_.size(), 0}, image_);
  EXPECT_EQ(Load(2), CudaResult::kSuccess);
}

TEST_F(SessionImagesTest, AModuleThatThereIsNoRoomForIsOutOfMemory) {
  SessionLimits limits;
  limits.max_module_bytes = image_.size();
  Restart(limits);
  Add(cmd::ImageData{1, image_.size(), 0}, image_);
  EXPECT_EQ(Load(1), CudaResult::kSuccess);  // Module 100.
  Add(cmd::ImageData{2, image_.size(), 0}, image_);
  EXPECT_EQ(Load(2), CudaResult::kOutOfMemory);
  // Of which nobody has said anything.
  EXPECT_EQ(Load(3), CudaResult::kInvalidHandle);
  Add(cmd::ModuleUnload{100});
  Add(cmd::ImageData{4, image_.size(), 0}, image_);
  EXPECT_EQ(Load(4), CudaResult::kSuccess);
}

TEST_F(SessionImagesTest, CompressedPartsMakeTheSameImage) {
  std::string raw;
  for (int i = 0; i < 3000; ++i) raw += "line " + std::to_string(i) + "\n";
  std::string frame(ZSTD_compressBound(20'000), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), raw.data(), 20'000, 1));
  Add(cmd::ImageZstd{1, raw.size(), 0, 20'000}, frame);
  Add(cmd::ImageData{1, raw.size(), 20'000}, raw.substr(20'000));
  EXPECT_EQ(Load(1), CudaResult::kSuccess);
  ASSERT_EQ(cache_.images.size(), 1u);
  EXPECT_EQ(cache_.images.begin()->second, raw);
}

TEST_F(SessionImagesTest, BadPartsAreRefusedAndTheSessionGoesOn) {
  std::string frame(100, '\0');
  const std::string raw(1000, 'r');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), raw.data(), raw.size(), 1));
  const uint64_t bad[] = {
      Add(cmd::ImageZstd{1, 1000, 0, 999}, frame),           // Holds more than it says.
      Add(cmd::ImageZstd{2, 1000, 0, 1000}, "no frame"),     //
      Add(cmd::ImageZstd{3, 900, 0, 1000}, frame),           // More than the image.
      Add(cmd::ImageZstd{4, 1000, 8, 1000}, frame),          // Starts in the middle.
      Add(cmd::ImageZstd{5, 8u << 20, 0, 2u << 20}, frame),  // Too large a part.
      Add(cmd::ImageZstd{6, 8u << 20, 0, ~uint64_t{0}}, frame),
      Add(cmd::ImageZstd{7, ~uint64_t{0}, 0, 1000}, frame),  // More than all modules may have.
  };
  Add(FindOf(8, image_));
  const uint64_t again = Add(FindOf(8, image_));
  const uint64_t data = Add(cmd::ImageData{8, image_.size(), 0}, image_);
  ASSERT_TRUE(Send().ok());
  for (const uint64_t seq : bad) EXPECT_TRUE(Failed(seq)) << seq;
  EXPECT_TRUE(Failed(again));
  EXPECT_TRUE(Failed(data));
  Add(cmd::ImageZstd{9, 1000, 0, 1000}, frame);
  EXPECT_EQ(Load(9), CudaResult::kSuccess);
}

TEST_F(SessionImagesTest, TheNextWorkerNeedsNoCache) {
  auto file = JournalFile::Create();
  ASSERT_TRUE(file.ok());
  const auto open = [&file] {
    auto journal = Journal::Open(UniqueFd(dup((*file)->fd())));
    EXPECT_TRUE(journal.ok());
    return *std::move(journal);
  };
  const std::string other(50'000, 'o');
  ContentHash hash;
  ASSERT_TRUE(HashContent(image_, &hash));
  cache_.images[hash] = image_;
  auto journal = open();
  auto recorder = std::make_unique<Recorder>(journal.get(), 1u << 20, 1u << 20);
  HostedSession::Options options = OptionsOf();
  options.recorder = recorder.get();
  Restart(std::move(options));
  session_->UseImageCache(&cache_);
  Add(FindOf(1, image_));
  Add(cmd::ModuleLoad{2, 1});
  const uint64_t found = Add(cmd::KernelFind{3, 2}, "kernel");
  // A module of a missing image exists in the next worker as well, and is as useless there.
  Add(FindOf(4, other));
  Add(cmd::ModuleLoad{5, 4});
  const uint64_t missing = Add(cmd::ModuleCheck{5});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(found);
  replies_.Wait(missing);
  const uint64_t last = next_seq_ - 1;
  session_.reset();
  recorder.reset();

  journal = open();
  recorder = std::make_unique<Recorder>(journal.get(), 1u << 20, 1u << 20);
  options = OptionsOf();
  options.recorder = recorder.get();
  session_ = Open(std::move(options));
  ASSERT_TRUE(session_->Replay(last).ok());
  const uint64_t check = Add(cmd::ModuleCheck{2});
  const uint64_t check_missing = Add(cmd::ModuleCheck{5});
  const uint64_t unload = Add(cmd::ModuleUnload{5});
  ASSERT_TRUE(Send().ok());
  CudaResult result = CudaResult::kUnknown;
  replies_.Wait(check, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
  replies_.Wait(check_missing, &result);
  EXPECT_EQ(result, CudaResult::kNotReady);
  EXPECT_FALSE(Failed(unload));
  EXPECT_EQ(cache_.asked, 2);
  // The unload may still be under way, and notes that in what ends here.
  session_.reset();
}

// Gives host memory for so much.
class HostPurse : public MemoryCharger {
 public:
  CudaResult Charge(uint32_t device, uint64_t bytes) override {
    EXPECT_EQ(device, kHostMemoryNumber);
    if (bytes > left) return CudaResult::kOutOfMemory;
    left -= bytes;
    return CudaResult::kSuccess;
  }
  void Uncharge(uint32_t, uint64_t bytes) override { left += bytes; }
  uint64_t left = 2 * HostMemory::kUnit;
};

TEST_F(SessionImagesTest, ImagesTakeHostMemoryThatIsGiven) {
  HostPurse purse;
  auto options = OptionsOf();
  options.charger = &purse;
  Restart(std::move(options));
  constexpr uint64_t kMost = kFreeImageBytes + 2 * HostMemory::kUnit;
  Add(cmd::ImageData{1, kMost - 100, 0}, "x");
  const uint64_t beyond = Add(cmd::ImageData{2, 101, 0}, "x");
  const uint64_t fits = Add(cmd::ImageData{3, 100, 0}, "x");
  ASSERT_TRUE(Send().ok());
  EXPECT_TRUE(Failed(beyond));
  EXPECT_FALSE(Failed(fits));
  EXPECT_EQ(purse.left, 0u);
  // A part that does not fit drops the image.
  Add(cmd::ImageData{1, kMost - 100, 77}, "x");
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(purse.left, HostMemory::kUnit);
  session_.reset();
}

}  // namespace
}  // namespace warpline::worker
