#include "client_stub/private_tables/context_storage.h"

#include <atomic>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace warpline {
namespace {

char g_objects[8];
const auto kContext = reinterpret_cast<CUcontext>(&g_objects[0]);
const auto kOtherContext = reinterpret_cast<CUcontext>(&g_objects[1]);
void* const kKey = &g_objects[2];
void* const kOtherKey = &g_objects[3];
void* const kValue = &g_objects[4];
void* const kOtherValue = &g_objects[5];

void* Get(ContextStorage* storage, CUcontext context, void* key) {
  void* value = nullptr;
  return storage->Get(context, key, &value) ? value : nullptr;
}

TEST(ContextStorageTest, KeepsContextsAndKeysApart) {
  ContextStorage storage;
  storage.Put(kContext, kKey, kValue, nullptr);
  EXPECT_EQ(Get(&storage, kContext, kKey), kValue);
  EXPECT_EQ(Get(&storage, kContext, kOtherKey), nullptr);
  EXPECT_EQ(Get(&storage, kOtherContext, kKey), nullptr);
}

TEST(ContextStorageTest, MissingValueLeavesTheOutputAlone) {
  ContextStorage storage;
  void* value = kOtherValue;
  EXPECT_FALSE(storage.Get(kContext, kKey, &value));
  EXPECT_EQ(value, kOtherValue);
}

TEST(ContextStorageTest, ReplacedAndDeletedValuesAreSeenAtOnce) {
  ContextStorage storage;
  storage.Put(kContext, kKey, kValue, nullptr);
  EXPECT_EQ(Get(&storage, kContext, kKey), kValue);
  storage.Put(kContext, kKey, kOtherValue, nullptr);
  EXPECT_EQ(Get(&storage, kContext, kKey), kOtherValue);
  EXPECT_TRUE(storage.Delete(kContext, kKey));
  EXPECT_EQ(Get(&storage, kContext, kKey), nullptr);
  EXPECT_FALSE(storage.Delete(kContext, kKey));
}

TEST(ContextStorageTest, ANewStorageRemembersNothingOfAnOldOneAtItsAddress) {
  alignas(ContextStorage) unsigned char place[sizeof(ContextStorage)];
  auto* storage = new (place) ContextStorage;
  storage->Put(kContext, kKey, kValue, nullptr);
  EXPECT_EQ(Get(storage, kContext, kKey), kValue);
  storage->~ContextStorage();
  storage = new (place) ContextStorage;
  EXPECT_EQ(Get(storage, kContext, kKey), nullptr);
  storage->~ContextStorage();
}

using Destroyed = std::vector<std::pair<void*, void*>>;
Destroyed g_destroyed;

TEST(ContextStorageTest, ForgetRunsTheDestructorsOfThatContextOnly) {
  g_destroyed.clear();
  const ContextStorage::Destructor destructor = [](CUcontext context, void* key, void* value) {
    EXPECT_EQ(context, kContext);
    g_destroyed.emplace_back(key, value);
  };
  ContextStorage storage;
  storage.Put(kContext, kKey, kValue, destructor);
  storage.Put(kContext, kOtherKey, kOtherValue, nullptr);
  storage.Put(kOtherContext, kKey, kOtherValue, destructor);
  storage.Forget(kContext);
  EXPECT_EQ(g_destroyed, (Destroyed{{kKey, kValue}}));
  EXPECT_EQ(Get(&storage, kContext, kKey), nullptr);
  EXPECT_EQ(Get(&storage, kContext, kOtherKey), nullptr);
  EXPECT_EQ(Get(&storage, kOtherContext, kKey), kOtherValue);
}

ContextStorage* g_storage;

TEST(ContextStorageTest, DestructorMayUseTheStorage) {
  ContextStorage storage;
  g_storage = &storage;
  storage.Put(kContext, kKey, kValue, [](CUcontext context, void* key, void*) {
    EXPECT_FALSE(g_storage->Delete(context, key));
  });
  storage.Forget(kContext);
}

TEST(ContextStorageTest, ThreadsSeeOnlyValuesThatWerePut) {
  ContextStorage storage;
  storage.Put(kContext, kKey, kValue, nullptr);
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 5000; ++n) {
        void* value = Get(&storage, kContext, kKey);
        if (value != kValue && value != kOtherValue) wrong = true;
      }
    });
  }
  for (int n = 0; n < 1000; ++n) {
    storage.Put(kContext, kKey, n % 2 == 0 ? kOtherValue : kValue, nullptr);
  }
  for (std::thread& t : threads) t.join();
  EXPECT_FALSE(wrong);
}

}  // namespace
}  // namespace warpline
