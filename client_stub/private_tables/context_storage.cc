#include "client_stub/private_tables/context_storage.h"

#include <atomic>
#include <vector>

namespace warpline {
namespace {

// Counts changes to all storages of the process. A value that a thread remembers is valid as long
// as the count is the one under which it was remembered.
std::atomic<uint64_t> g_changes{1};

struct Remembered {
  uint64_t changes = 0;  // 0: nothing.
  const ContextStorage* storage = nullptr;
  uintptr_t context = 0;
  uintptr_t key = 0;
  void* value = nullptr;
};

// A process has one key for each copy of the runtime library: half a dozen with PyTorch.
constexpr size_t kRemembered = 16;

// The values lie behind a pointer and are not thread-local themselves, because all thread-local
// storage of this library comes from the few hundred bytes that a process has for late libraries of
// the initial-exec kind (core/runtime/thread_state.h).
thread_local Remembered* t_remembered = nullptr;

struct Owner {
  ~Owner() {
    delete[] t_remembered;
    t_remembered = nullptr;
  }
  bool used = false;
};
thread_local Owner t_owner;

Remembered* Slot(uintptr_t context, uintptr_t key) {
  const uint64_t mixed = (context ^ (key << 1)) * 0x9e3779b97f4a7c15u;
  if (t_remembered == nullptr) {
    t_remembered = new Remembered[kRemembered];
    t_owner.used = true;  // After its first use it is destroyed with the thread.
  }
  return &t_remembered[mixed >> 60];
}

}  // namespace

ContextStorage::~ContextStorage() { g_changes.fetch_add(1, std::memory_order_release); }

void ContextStorage::Put(CUcontext context, void* key, void* value, Destructor destructor) {
  MutexLock lock(&mu_);
  entries_[Key(reinterpret_cast<uintptr_t>(context), reinterpret_cast<uintptr_t>(key))] = {
      value, destructor};
  g_changes.fetch_add(1, std::memory_order_release);
}

bool ContextStorage::Get(CUcontext context, void* key, void** value) {
  const auto context_number = reinterpret_cast<uintptr_t>(context);
  const auto key_number = reinterpret_cast<uintptr_t>(key);
  Remembered* slot = Slot(context_number, key_number);
  if (slot->changes == g_changes.load(std::memory_order_acquire) && slot->storage == this &&
      slot->context == context_number && slot->key == key_number) {
    *value = slot->value;
    return true;
  }
  MutexLock lock(&mu_);
  // Read before the look-up: a change of another storage in between only makes this entry stale.
  const uint64_t changes = g_changes.load(std::memory_order_acquire);
  const auto found = entries_.find(Key(context_number, key_number));
  if (found == entries_.end()) return false;
  *slot = {changes, this, context_number, key_number, found->second.value};
  *value = found->second.value;
  return true;
}

bool ContextStorage::Delete(CUcontext context, void* key) {
  MutexLock lock(&mu_);
  const bool deleted = entries_.erase(Key(reinterpret_cast<uintptr_t>(context),
                                          reinterpret_cast<uintptr_t>(key))) > 0;
  g_changes.fetch_add(1, std::memory_order_release);
  return deleted;
}

void ContextStorage::Forget(CUcontext context) {
  std::vector<std::pair<Key, Entry>> dropped;
  {
    MutexLock lock(&mu_);
    const auto number = reinterpret_cast<uintptr_t>(context);
    auto it = entries_.lower_bound(Key(number, 0));
    while (it != entries_.end() && it->first.first == number) {
      dropped.push_back(*it);
      it = entries_.erase(it);
    }
    g_changes.fetch_add(1, std::memory_order_release);
  }
  for (const auto& [key, entry] : dropped) {
    if (entry.destructor != nullptr) {
      entry.destructor(context, reinterpret_cast<void*>(key.second), entry.value);
    }
  }
}

}  // namespace warpline
