#include "transport/shm_board.h"

#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "common/sealed_memory.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

struct Ends {
  UniqueFd fd;
  std::unique_ptr<BoardWriter> writer;
  std::unique_ptr<BoardReader> reader;
};

Ends MakeEnds(uint64_t generation = 1) {
  Ends ends;
  ends.fd = *CreateBoard();
  ends.writer = *BoardWriter::Attach(ends.fd, generation);
  ends.reader = *BoardReader::Attach(ends.fd);
  return ends;
}

// Two keys that share a place.
std::pair<uint64_t, uint64_t> Colliding() {
  uint64_t other = 1;
  while (BoardMap::IndexOf(other) != BoardMap::IndexOf(0)) ++other;
  return {0, other};
}

TEST(ShmBoardTest, TellsTheNewestReport) {
  Ends ends = MakeEnds(7);
  BoardReport report;
  EXPECT_FALSE(ends.reader->Read(5, &report));
  ends.writer->Write(5, 10, 3);
  ends.writer->Write(5, 11, 4);
  ASSERT_TRUE(ends.reader->Read(5, &report));
  EXPECT_EQ(report.number, 11u);
  EXPECT_EQ(report.after, 4u);
  EXPECT_EQ(report.generation, 7u);
}

TEST(ShmBoardTest, AnEmptyBoardSaysNothingAboutKeyZero) {
  Ends ends = MakeEnds();
  BoardReport report;
  EXPECT_FALSE(ends.reader->Read(0, &report));
}

TEST(ShmBoardTest, AKeyPushesOutTheOtherOfItsPlace) {
  Ends ends = MakeEnds();
  const auto [first, second] = Colliding();
  ends.writer->Write(first, 1, 0);
  ends.writer->Write(second, 2, 0);
  BoardReport report;
  EXPECT_FALSE(ends.reader->Read(first, &report));
  ASSERT_TRUE(ends.reader->Read(second, &report));
  EXPECT_EQ(report.number, 2u);
}

TEST(ShmBoardTest, TheNextWriterGoesOnWhereOneDiedInTheMiddle) {
  Ends ends = MakeEnds();
  ends.writer->Write(5, 10, 0);
  BoardMap::Map(ends.fd.get()).value()->At(5).version.fetch_add(1);
  BoardReport report;
  EXPECT_FALSE(ends.reader->Read(5, &report));
  const auto next = *BoardWriter::Attach(ends.fd, 2);
  next->Write(5, 12, 1);
  ASSERT_TRUE(ends.reader->Read(5, &report));
  EXPECT_EQ(report.number, 12u);
  EXPECT_EQ(report.generation, 2u);
}

TEST(ShmBoardTest, AReportIsNeverOneOfTwo) {
  Ends ends = MakeEnds();
  const std::pair<uint64_t, uint64_t> keys = Colliding();
  const uint64_t first = keys.first;
  const uint64_t second = keys.second;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint64_t i = 1; !done.load(); ++i) {
      ends.writer->Write(first, 2 * i, 20 * i);
      ends.writer->Write(second, 2 * i + 1, 20 * i + 10);
    }
  });
  uint64_t seen = 0;
  for (int i = 0; i < 300'000 || seen < 1000; ++i) {
    BoardReport report;
    const bool is_first = i % 2 == 0;
    if (!ends.reader->Read(is_first ? first : second, &report)) continue;
    ASSERT_EQ(report.number % 2, is_first ? 0u : 1u);
    ASSERT_EQ(report.after, 10 * report.number);
    ++seen;
  }
  done.store(true);
  writer.join();
}

TEST(ShmBoardTest, AReportWakesWhoSleepsForIt) {
  Ends ends = MakeEnds();
  std::atomic<bool> woken{false};
  std::thread sleeper([&] {
    BoardReport report;
    const auto there = [&] { return ends.reader->Read(5, &report); };
    while (!there()) ends.reader->Sleep(5, 1, absl::Hours(1), there);
    woken.store(true);
  });
  while (!ends.writer->Awaited(5)) std::this_thread::yield();
  EXPECT_FALSE(woken.load());
  ends.writer->Write(5, 1, 0);
  sleeper.join();
  EXPECT_TRUE(woken.load());
  EXPECT_FALSE(ends.writer->Awaited(5));
}

TEST(ShmBoardTest, NobodySleepsForWhatIsThere) {
  Ends ends = MakeEnds();
  ends.writer->Write(5, 1, 0);
  ends.reader->Sleep(5, 1, absl::Hours(1), [&] {
    BoardReport report;
    return ends.reader->Read(5, &report);
  });
}

TEST(ShmBoardTest, ASleepEndsByItself) {
  Ends ends = MakeEnds();
  ends.reader->Sleep(5, 1, absl::Milliseconds(1), [] { return false; });
}

TEST(ShmBoardTest, OnlyWhatIsWantedWakes) {
  Ends ends = MakeEnds();
  ends.reader->Sleep(5, 3, absl::ZeroDuration(), [] { return false; });
  ends.writer->Write(5, 2, 0);
  EXPECT_TRUE(ends.writer->Awaited(5));
  // Of two readers each is woken for its own.
  ends.reader->Sleep(5, 9, absl::ZeroDuration(), [] { return false; });
  ends.writer->Write(5, 3, 0);
  EXPECT_FALSE(ends.writer->Awaited(5));
}

TEST(ShmBoardTest, NoReportIsSleptThrough) {
  Ends ends = MakeEnds();
  constexpr uint64_t kReports = 20'000;
  std::atomic<uint64_t> seen{0};
  std::thread reader([&] {
    for (uint64_t wanted = 1; wanted <= kReports; ++wanted) {
      BoardReport report = {};
      const auto there = [&] { return ends.reader->Read(5, &report) && report.number >= wanted; };
      while (!there()) ends.reader->Sleep(5, wanted, absl::Hours(1), there);
      seen.store(wanted);
    }
  });
  for (uint64_t i = 1; i <= kReports; ++i) {
    ends.writer->Write(5, i, 0);
    while (seen.load() < i) std::this_thread::yield();
  }
  reader.join();
}

TEST(ShmBoardTest, OtherMemoryIsNoBoard) {
  const UniqueFd larger = *NewSealedMemory("larger", 2 * kBoardBytes);
  EXPECT_EQ(BoardReader::Attach(larger).status().code(), absl::StatusCode::kInvalidArgument);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  EXPECT_EQ(BoardWriter::Attach(read_end, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace warpline
