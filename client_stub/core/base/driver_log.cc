#include "client_stub/core/base/driver_log.h"

#include <algorithm>
#include <vector>

#include "common/log/log_observer.h"

namespace warpline::stub {
namespace {

constexpr std::string_view kMissing = "[W] older messages are missing\n";

}  // namespace

void DriverLog::Add(LogLevel level, std::string_view line) {
  if (level == LogLevel::kInfo) return;
  const bool error = level == LogLevel::kError;
  std::vector<Callback> callbacks;
  {
    MutexLock lock(&mu_);
    messages_.push_back((error ? "[E] " : "[W] ") + std::string(line) + "\n");
    if (messages_.size() > kMostMessages) messages_.pop_front();
    ++end_;
    for (const auto& [handle, callback] : callbacks_) callbacks.push_back(callback);
  }
  for (const Callback& callback : callbacks) {
    std::string message(line);
    callback.function(callback.data, error ? CU_LOG_LEVEL_ERROR : CU_LOG_LEVEL_WARNING,
                      message.data(), message.size());
  }
}

uint32_t DriverLog::end() const {
  MutexLock lock(&mu_);
  return end_;
}

uint32_t DriverLog::begin() const {
  MutexLock lock(&mu_);
  return end_ - static_cast<uint32_t>(messages_.size());
}

std::string DriverLog::Read(uint32_t* next, size_t most_bytes) const {
  MutexLock lock(&mu_);
  const size_t wanted = end_ - *next;  // Numbers wrap around.
  *next = end_;
  size_t first = messages_.size() - std::min(wanted, messages_.size());
  bool missing = wanted > messages_.size();
  const auto bytes = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    size_t sum = missing ? kMissing.size() : 0;
    for (size_t i = first; i < messages_.size(); ++i) sum += messages_[i].size();
    return sum;
  };
  while (first < messages_.size() && bytes() > most_bytes) {
    missing = true;
    ++first;
  }
  if (first == messages_.size()) return "";
  std::string text(missing ? kMissing : "");
  for (; first < messages_.size(); ++first) text += messages_[first];
  return text;
}

uint64_t DriverLog::AddCallback(CUlogsCallback callback, void* data) {
  MutexLock lock(&mu_);
  const uint64_t handle = next_handle_++;
  callbacks_[handle] = {callback, data};
  return handle;
}

bool DriverLog::RemoveCallback(uint64_t handle) {
  MutexLock lock(&mu_);
  return callbacks_.erase(handle) != 0;
}

DriverLog& TheDriverLog() {
  // Never destroyed: other threads may log until the process is gone.
  static DriverLog* const log = [] {
    static DriverLog* const made = new DriverLog;
    SetLogObserver([](LogLevel level, std::string_view line) { made->Add(level, line); });
    return made;
  }();
  return *log;
}

}  // namespace warpline::stub
