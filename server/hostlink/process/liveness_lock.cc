#include "server/hostlink/process/liveness_lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sealed_memory.h"

namespace warpline {
namespace {

// The lock word is the first member of glibc's pthread_mutex_t.
constexpr size_t kBytes = 4096;
static_assert(sizeof(pthread_mutex_t) <= kBytes);
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
              std::atomic<uint32_t>::is_always_lock_free);

}  // namespace

absl::StatusOr<std::shared_ptr<LivenessLock>> LivenessLock::Create() {
  absl::StatusOr<UniqueFd> fd = NewSealedMemory("warpline-life", kBytes);
  if (!fd.ok()) return fd.status();
  const void* const map = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd->get(), 0);
  if (map == MAP_FAILED) return absl::ResourceExhaustedError("a liveness lock cannot be mapped");
  return std::shared_ptr<LivenessLock>(
      new LivenessLock(*std::move(fd), static_cast<const std::atomic<uint32_t>*>(map)));
}

LivenessLock::~LivenessLock() { munmap(const_cast<std::atomic<uint32_t>*>(word_), kBytes); }

bool LivenessLock::Ended() const {
  return (word_->load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0;
}

absl::Status HoldLivenessLock(const UniqueFd& fd) {
  // The mapping stays for ever, like the process's own memory.
  void* const map = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (map == MAP_FAILED) return absl::InvalidArgumentError("not a liveness lock");
  auto* const mutex = static_cast<pthread_mutex_t*>(map);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  int error = pthread_mutex_init(mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (error == 0) error = pthread_mutex_lock(mutex);
  if (error != 0) return absl::InternalError(absl::StrCat("a liveness lock: ", strerror(error)));
  auto* const word = static_cast<std::atomic<uint32_t>*>(map);
  // The kernel wakes a waiter only if the word says that there is one.
  word->fetch_or(FUTEX_WAITERS, std::memory_order_release);
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return absl::OkStatus();
}

}  // namespace warpline
