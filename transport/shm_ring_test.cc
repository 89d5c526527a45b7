#include "transport/shm_ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "transport/channel.h"
#include "transport/shm_ring_map.h"

namespace warpline {
namespace {

constexpr size_t kCapacity = 64 << 10;
constexpr absl::Duration kPatience = absl::Minutes(4);

struct Ring {
  std::unique_ptr<RingWriter> writer;
  std::unique_ptr<RingReader> reader;
  std::unique_ptr<ShmRingMap> forger;  // What a hostile peer could write to.
  RingDescriptors descriptors;
};

Ring MakeRing(size_t capacity = kCapacity) {
  Ring ring;
  auto created = CreateRing(capacity);
  EXPECT_TRUE(created.ok()) << created.status();
  ring.descriptors = *std::move(created);
  auto map = ShmRingMap::Map(ring.descriptors.memory.get());
  EXPECT_TRUE(map.ok()) << map.status();
  ring.forger = std::make_unique<ShmRingMap>(*std::move(map));
  ring.writer = *RingWriter::Attach(*ring.descriptors.Duplicate());
  ring.reader = *RingReader::Attach(*ring.descriptors.Duplicate());
  return ring;
}

absl::StatusOr<bool> TryWrite(RingWriter* writer, uint32_t kind, std::string_view payload) {
  return writer->TryWrite(kind, {payload});
}

bool Write(Ring& ring, uint32_t kind, std::string_view payload) {
  const auto written = TryWrite(ring.writer.get(), kind, payload);
  EXPECT_TRUE(written.ok()) << written.status();
  return written.ok() && *written;
}

TEST(ShmRing, FramesComeOutAsTheyWentIn) {
  Ring ring = MakeRing();
  const std::string_view parts[] = {"gathered ", "", "from ", "parts"};
  EXPECT_TRUE(*ring.writer->TryWrite(7, parts));
  EXPECT_TRUE(Write(ring, 0xffffffff, ""));
  uint32_t kind;
  std::string payload;
  ASSERT_TRUE(*ring.reader->TryRead(&kind, &payload));
  EXPECT_EQ(kind, 7u);
  EXPECT_EQ(payload, "gathered from parts");
  ASSERT_TRUE(*ring.reader->TryRead(&kind, &payload));
  EXPECT_EQ(kind, 0xffffffffu);
  EXPECT_EQ(payload, "");
  EXPECT_FALSE(*ring.reader->TryRead(&kind, &payload));
}

TEST(ShmRing, FramesAcrossTheEndOfTheRingStayWhole) {
  Ring ring = MakeRing(4096);
  for (int i = 0; i < 5000; ++i) {
    const std::string sent(i % 1500, static_cast<char>(i));
    ASSERT_TRUE(Write(ring, i, sent));
    uint32_t kind;
    std::string_view payload;
    ASSERT_TRUE(*ring.reader->Peek(&kind, &payload));
    ASSERT_EQ(kind, static_cast<uint32_t>(i));
    ASSERT_EQ(payload, sent);
    ring.reader->Consume();
  }
}

TEST(ShmRing, AFullRingTakesNothingUntilTheReaderHasConsumed) {
  Ring ring = MakeRing(4096);
  size_t written = 0;
  while (Write(ring, 1, std::string(1000, 'x'))) ++written;
  EXPECT_EQ(written, 4u);
  EXPECT_FALSE(ring.writer->WaitWritable(absl::Milliseconds(1)));
  uint32_t kind;
  std::string payload;
  EXPECT_TRUE(*ring.reader->TryRead(&kind, &payload));
  EXPECT_TRUE(ring.writer->WaitWritable(kPatience));
  EXPECT_TRUE(Write(ring, 1, std::string(1000, 'x')));
}

TEST(ShmRing, TheWholeCapacityIsUsable) {
  Ring ring = MakeRing(4096);
  EXPECT_EQ(ring.writer->max_payload(), 4088u);
  EXPECT_TRUE(Write(ring, 1, std::string(4088, 'x')));
  EXPECT_TRUE(
      absl::IsInvalidArgument(TryWrite(ring.writer.get(), 1, std::string(4089, 'x')).status()));
  uint32_t kind;
  std::string payload;
  EXPECT_TRUE(*ring.reader->TryRead(&kind, &payload));
  EXPECT_EQ(payload.size(), 4088u);
}

TEST(ShmRing, NoPayloadIsAboveTheFrameLimit) {
  Ring ring = MakeRing(16 << 20);
  EXPECT_EQ(ring.writer->max_payload(), kMaxFramePayload);
}

TEST(ShmRing, AMillionFramesPassBetweenThreadsThatSleepAndWake) {
  Ring ring = MakeRing();
  constexpr uint32_t kFrames = 1000000;
  std::thread writer([&ring] {
    for (uint32_t i = 0; i < kFrames;) {
      const auto written =
          TryWrite(ring.writer.get(), i, std::string_view("0123456789abcdef", i % 17));
      ASSERT_TRUE(written.ok());
      if (*written) {
        ++i;
      } else {
        ASSERT_TRUE(ring.writer->WaitWritable(kPatience));
      }
    }
  });
  std::string payload;
  for (uint32_t i = 0; i < kFrames;) {
    uint32_t kind;
    const auto read = ring.reader->TryRead(&kind, &payload);
    ASSERT_TRUE(read.ok());
    if (*read) {
      ASSERT_EQ(kind, i);
      ASSERT_EQ(payload.size(), i % 17);
      ++i;
    } else {
      ASSERT_TRUE(ring.reader->WaitReadable(kPatience));
    }
  }
  writer.join();
}

TEST(ShmRing, ASleeperIsWokenForEveryFrame) {
  Ring there = MakeRing();
  Ring back = MakeRing();
  constexpr int kRounds = 2000;
  std::thread echo([&] {
    uint32_t kind;
    std::string payload;
    for (int i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(there.reader->WaitReadable(kPatience));
      ASSERT_TRUE(*there.reader->TryRead(&kind, &payload));
      ASSERT_TRUE(*TryWrite(back.writer.get(), kind, payload));
    }
  });
  uint32_t kind;
  std::string payload;
  for (uint32_t i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(*TryWrite(there.writer.get(), i, "ping"));
    ASSERT_TRUE(back.reader->WaitReadable(kPatience));
    ASSERT_TRUE(*back.reader->TryRead(&kind, &payload));
    ASSERT_EQ(kind, i);
  }
  echo.join();
}

TEST(ShmRing, FramesOutliveTheProcessThatWroteThem) {
  auto descriptors = CreateRing(kCapacity);
  ASSERT_TRUE(descriptors.ok());
  const pid_t child = fork();
  if (child == 0) {
    auto writer = RingWriter::Attach(*std::move(descriptors));
    bool ok = writer.ok();
    for (int i = 0; ok && i < 100; ++i) {
      const auto written = TryWrite(writer->get(), i, "from the child");
      ok = written.ok() && *written;
    }
    _exit(ok ? 0 : 1);
  }
  auto reader = RingReader::Attach(*std::move(descriptors));
  ASSERT_TRUE(reader.ok());
  for (uint32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE((*reader)->WaitReadable(kPatience));
    uint32_t kind;
    std::string payload;
    ASSERT_TRUE(*(*reader)->TryRead(&kind, &payload));
    EXPECT_EQ(kind, i);
    EXPECT_EQ(payload, "from the child");
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(ShmRing, ADoorbellRingsForAnEventLoop) {
  Ring ring = MakeRing(4096);
  const auto rung = [](int fd) {
    pollfd entry = {.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&entry, 1, 0) == 1;
  };
  EXPECT_TRUE(ring.reader->PrepareToSleep());
  EXPECT_FALSE(rung(ring.reader->readable_fd()));
  EXPECT_TRUE(Write(ring, 1, "x"));
  EXPECT_TRUE(rung(ring.reader->readable_fd()));
  ring.reader->ClearDoorbell();
  EXPECT_FALSE(rung(ring.reader->readable_fd()));
  EXPECT_FALSE(ring.reader->PrepareToSleep());

  while (Write(ring, 1, std::string(1000, 'x'))) {
  }
  EXPECT_TRUE(ring.writer->PrepareToSleep(1000));
  EXPECT_FALSE(rung(ring.writer->writable_fd()));
  uint32_t kind;
  std::string payload;
  while (*ring.reader->TryRead(&kind, &payload)) {
  }
  EXPECT_TRUE(rung(ring.writer->writable_fd()));
  ring.writer->ClearDoorbell();
  EXPECT_FALSE(rung(ring.writer->writable_fd()));
  EXPECT_FALSE(ring.writer->PrepareToSleep(1000));
}

TEST(ShmRing, NobodyRingsForAReaderThatIsAwake) {
  Ring ring = MakeRing();
  EXPECT_TRUE(Write(ring, 1, "x"));
  pollfd entry = {.fd = ring.reader->readable_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&entry, 1, 0), 0);
}

// A reader with a hostile writer.

TEST(ShmRing, AnIndexBeyondTheRingIsRefusedForGood) {
  for (const uint64_t forged : {uint64_t{kCapacity + 8}, uint64_t{4}, ~uint64_t{0}, ~uint64_t{7}}) {
    Ring ring = MakeRing();
    ring.forger->header()->tail = forged;
    uint32_t kind;
    std::string payload;
    EXPECT_TRUE(absl::IsInvalidArgument(ring.reader->TryRead(&kind, &payload).status())) << forged;
    ring.forger->header()->tail = 0;
    EXPECT_TRUE(absl::IsInvalidArgument(ring.reader->TryRead(&kind, &payload).status())) << forged;
    EXPECT_TRUE(ring.reader->WaitReadable(kPatience));
  }
}

TEST(ShmRing, AnIndexThatGoesBackIsRefused) {
  Ring ring = MakeRing();
  EXPECT_TRUE(Write(ring, 1, "0123456789"));
  uint32_t kind;
  std::string payload;
  EXPECT_TRUE(*ring.reader->TryRead(&kind, &payload));
  ring.forger->header()->tail = 8;
  EXPECT_TRUE(absl::IsInvalidArgument(ring.reader->TryRead(&kind, &payload).status()));
}

TEST(ShmRing, AFrameLongerThanWhatWasWrittenIsRefused) {
  for (const uint32_t forged : {17u, 1000u, 1u << 20, 0x7fffffffu, 0xffffffffu, 0xfffffff9u}) {
    Ring ring = MakeRing();
    EXPECT_TRUE(Write(ring, 1, "0123456789"));
    *reinterpret_cast<uint32_t*>(ring.forger->At(0)) = forged;
    uint32_t kind;
    std::string payload;
    EXPECT_TRUE(absl::IsInvalidArgument(ring.reader->TryRead(&kind, &payload).status())) << forged;
  }
}

TEST(ShmRing, AFrameAboveTheLimitIsRefusedEvenIfItIsThere) {
  Ring ring = MakeRing(4 << 20);
  *reinterpret_cast<uint32_t*>(ring.forger->At(0)) = kMaxFramePayload + 1;
  ring.forger->header()->tail = 2 << 20;
  uint32_t kind;
  std::string payload;
  EXPECT_TRUE(absl::IsInvalidArgument(ring.reader->TryRead(&kind, &payload).status()));
}

// A writer with a hostile reader.

TEST(ShmRing, AReaderAheadOfTheWriterIsRefused) {
  for (const uint64_t forged : {uint64_t{1} << 40, ~uint64_t{7}, uint64_t{4096 + 16}}) {
    Ring ring = MakeRing(4096);
    while (Write(ring, 1, std::string(1000, 'x'))) {
    }
    ring.forger->header()->head = forged;
    EXPECT_TRUE(
        absl::IsInvalidArgument(TryWrite(ring.writer.get(), 1, std::string(1000, 'x')).status()));
    EXPECT_TRUE(ring.writer->WaitWritable(kPatience));
  }
}

TEST(ShmRing, AReaderThatGoesBackIsRefused) {
  Ring ring = MakeRing(4096);
  uint32_t kind;
  std::string payload;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(Write(ring, 1, std::string(1000, 'x')));
    ASSERT_TRUE(*ring.reader->TryRead(&kind, &payload));
  }
  while (Write(ring, 1, std::string(1000, 'x'))) {
  }
  ring.forger->header()->head = 0;
  EXPECT_TRUE(
      absl::IsInvalidArgument(TryWrite(ring.writer.get(), 1, std::string(1000, 'x')).status()));
}

TEST(ShmRing, ADoorbellRungForNothingEndsNoWait) {
  Ring ring = MakeRing();
  const char noise[200] = {};
  ASSERT_GT(write(ring.descriptors.readable.get(), noise, sizeof(noise)), 0);
  EXPECT_FALSE(ring.reader->WaitReadable(absl::Milliseconds(5)));
}

TEST(ShmRing, APeerCannotMakeADoorbellBlock) {
  Ring ring = MakeRing();
  const int peers = ring.descriptors.readable.get();
  const std::string noise(1 << 20, 'x');
  while (write(peers, noise.data(), noise.size()) > 0) {
  }
  ASSERT_EQ(fcntl(peers, F_SETFL, 0), 0);
  ring.forger->header()->reader_sleeps = 1;
  EXPECT_TRUE(Write(ring, 1, "x"));  // Rings.
}

// Descriptors that are not a ring's.

TEST(ShmRing, MemoryThatCouldShrinkIsRefused) {
  auto ring = CreateRing(4096);
  ASSERT_TRUE(ring.ok());
  ring->memory = UniqueFd(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(ring->memory.get(), 8192), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(RingReader::Attach(*std::move(ring)).status()));
}

TEST(ShmRing, MemoryOfAnOddSizeIsRefused) {
  for (const off_t size : {0, 100, 4096, 4096 + 100, 4096 * 4}) {
    auto ring = CreateRing(4096);
    ASSERT_TRUE(ring.ok());
    ring->memory = UniqueFd(memfd_create("odd", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(ring->memory.get(), size), 0);
    ASSERT_EQ(fcntl(ring->memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    EXPECT_TRUE(absl::IsInvalidArgument(RingWriter::Attach(*std::move(ring)).status())) << size;
  }
}

TEST(ShmRing, WhatIsNoDoorbellIsRefused) {
  auto ring = CreateRing(4096);
  ASSERT_TRUE(ring.ok());
  ring->readable = UniqueFd(dup(ring->memory.get()));
  EXPECT_TRUE(absl::IsInvalidArgument(RingWriter::Attach(*std::move(ring)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(RingWriter::Attach(RingDescriptors()).status()));
}

}  // namespace
}  // namespace warpline
