#include "client_stub/session/status/output_buffer.h"

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

std::string* g_printed;
bool g_locked;
std::function<void()> g_while_writing;

int Print(int descriptor, const char* text, size_t bytes, int wait) {
  if (g_locked && wait == 0) return 0;
  if (wait != 0 && g_while_writing) std::exchange(g_while_writing, nullptr)();
  g_printed->append(std::to_string(descriptor)).append(":").append(text, bytes).append(" ");
  return 1;
}

class OutputBufferTest : public testing::Test {
 protected:
  void SetUp() override {
    g_printed = &printed_;
    g_locked = false;
    g_while_writing = nullptr;
    buffer_.SetPrinter(Print);
  }

  std::string printed_;
  OutputBuffer buffer_;
};

TEST_F(OutputBufferTest, WritesOnceAndInOrderAcrossDescriptors) {
  buffer_.Add(1, "a");
  buffer_.Add(1, "b");
  buffer_.Add(2, "c");
  buffer_.Add(1, "d");
  EXPECT_EQ(printed_, "");
  buffer_.Write();
  EXPECT_EQ(printed_, "1:ab 2:c 1:d ");
  buffer_.Write();
  EXPECT_EQ(printed_, "1:ab 2:c 1:d ");
}

TEST_F(OutputBufferTest, EmptyTextOnlyAnnounces) {
  EXPECT_FALSE(buffer_.expected());
  buffer_.Add(1, "");
  EXPECT_TRUE(buffer_.expected());
  buffer_.Write();
  EXPECT_EQ(printed_, "");
}

TEST_F(OutputBufferTest, MuchIsWrittenWithoutAWait) {
  const std::string text(OutputBuffer::kMaxHeldBytes + 1, 'x');
  buffer_.Add(1, text);
  EXPECT_EQ(printed_, "1:" + text + " ");
}

TEST_F(OutputBufferTest, MuchIsLostRatherThanWaitedForWhenTheApplicationHoldsTheStream) {
  g_locked = true;
  buffer_.Add(1, std::string(OutputBuffer::kMaxHeldBytes + 1, 'x'));
  buffer_.Add(1, "later");
  buffer_.Write();
  EXPECT_EQ(printed_, "1:later ");
}

TEST_F(OutputBufferTest, LoopDoesNotWaitForAThreadThatWrites) {
  const std::string mebibyte(1u << 20, 'x');
  g_while_writing = [&] {
    std::thread loop([&] {
      for (int i = 0; i < 40; ++i) buffer_.Add(1, mebibyte);
    });
    loop.join();
  };
  buffer_.Add(1, "first");
  buffer_.Write();
  // That thread writes the text that came meanwhile, up to the bound.
  EXPECT_EQ(printed_.substr(0, 8), "1:first ");
  EXPECT_GT(printed_.size(), OutputBuffer::kMaxBehindWriterBytes);
  EXPECT_LT(printed_.size(), OutputBuffer::kMaxBehindWriterBytes + (2u << 20));
}

}  // namespace
}  // namespace warpline::stub
