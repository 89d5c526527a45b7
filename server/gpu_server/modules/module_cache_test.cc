#include "server/gpu_server/modules/module_cache.h"

#include <sys/mman.h>
#include <unistd.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::server {
namespace {

constexpr uint64_t kBytes = 32u << 10;

std::shared_ptr<UniqueFd> Image(char content) {
  const std::string bytes(kBytes, content);
  auto memory =
      std::make_shared<UniqueFd>(UniqueFd(memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  EXPECT_EQ(write(memory->get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return memory;
}

TEST(ModuleCacheTest, WhoHasMuchStoredWaitsAndOthersDoNot) {
  auto store = ModuleStore::Open({.dir = testing::TempDir() + "/rated"});
  ASSERT_TRUE(store.ok()) << store.status();
  ModuleCache cache(*std::move(store), {.images = 2, .images_per_second = 0});
  const auto keep = [&](const std::string& payer, char content) {
    std::promise<absl::Status> done;
    cache.Keep("tenant", payer, Image(content), kBytes,
               [&](const absl::StatusOr<ContentHash>& hash) { done.set_value(hash.status()); });
    return done.get_future().get();
  };
  EXPECT_TRUE(keep("a", '1').ok());
  EXPECT_TRUE(keep("a", '2').ok());
  EXPECT_TRUE(absl::IsResourceExhausted(keep("a", '3')));
  EXPECT_TRUE(keep("b", '4').ok());
  EXPECT_EQ(cache.store().images(), 3u);
}

// However many images one looks up, another waits for one of them, also where they are of one
// tenant, as all clients of a server without a scheduler are.
TEST(ModuleCacheTest, PayersLookUpByTurns) {
  auto store = ModuleStore::Open({.dir = testing::TempDir() + "/turns"});
  ASSERT_TRUE(store.ok()) << store.status();
  std::vector<std::string> order;  // Only touched by the cache's thread until the end.
  std::promise<void> begun, begin, end;
  {
    ModuleCache cache(*std::move(store));
    cache.Find("local", "many", ContentHash(), kBytes, [&](std::shared_ptr<UniqueFd>) {
      begun.set_value();
      begin.get_future().wait();
    });
    begun.get_future().wait();
    const auto find = [&](const std::string& payer) {
      cache.Find("local", payer, ContentHash(), kBytes,
                 [&order, payer](std::shared_ptr<UniqueFd>) { order.push_back(payer); });
    };
    for (int i = 0; i < 5; ++i) find("many");
    find("other");
    find("other");
    find("third");
    cache.Find("local", "last", ContentHash(), kBytes, [](std::shared_ptr<UniqueFd>) {});
    for (int i = 0; i < 2; ++i) find("many");
    cache.Find("local", "many", ContentHash(), kBytes,
               [&](std::shared_ptr<UniqueFd>) { end.set_value(); });
    begin.set_value();
    end.get_future().wait();
  }
  EXPECT_EQ(order, (std::vector<std::string>{"many", "other", "third", "many", "other", "many",
                                             "many", "many", "many", "many"}));
}

}  // namespace
}  // namespace warpline::server
