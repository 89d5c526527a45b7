#include "common/log/log.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "common/log/log_observer.h"

namespace warpline {
namespace {

std::atomic<const char*> g_name{"warpline"};
std::atomic<int> g_descriptor{STDERR_FILENO};
std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogObserver> g_observer{nullptr};

constexpr size_t kMaxLine = 2000;

void AppendEscaped(std::string_view text, std::string* out) {
  char before = 0;
  for (const char c : text) {
    // Terminals obey some of U+0080 to U+009F, in UTF-8, as they do ESC [.
    const bool control = before == '\xc2' && static_cast<unsigned char>(c) < 0xa0;
    before = c;
    if (out->size() >= kMaxLine) {
      out->append("...");
      return;
    }
    if (control || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char hex[8];
      std::snprintf(hex, sizeof(hex), "\\x%02x", static_cast<unsigned char>(c));
      out->append(hex);
    } else {
      out->push_back(c);
    }
  }
}

}  // namespace

void SetLogName(const char* name) { g_name.store(name, std::memory_order_relaxed); }
void SetLogDescriptor(int descriptor) { g_descriptor.store(descriptor, std::memory_order_relaxed); }
void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
void SetLogObserver(LogObserver observer) { g_observer.store(observer, std::memory_order_release); }

void LogLine(LogLevel level, std::string_view text, std::string_view tail) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc;
  gmtime_r(&now.tv_sec, &utc);
  char head[96];
  const size_t n = strftime(head, sizeof(head), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(head + n, sizeof(head) - n, ".%03ldZ %c ", now.tv_nsec / 1000000,
                "IWE"[static_cast<int>(level)]);
  std::string line = head;
  const size_t start = line.size();
  line.append(g_name.load(std::memory_order_relaxed));
  line.push_back(' ');
  AppendEscaped(text, &line);
  line.append(tail);
  if (const LogObserver observer = g_observer.load(std::memory_order_acquire)) {
    observer(level, std::string_view(line).substr(start));
  }
  line.push_back('\n');
  // A log line that cannot be written has nowhere else to go.
  [[maybe_unused]] const ssize_t written =
      write(g_descriptor.load(std::memory_order_relaxed), line.data(), line.size());
}

}  // namespace warpline
