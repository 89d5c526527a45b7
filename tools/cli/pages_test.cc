#include "tools/cli/pages.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "proto/scheduler.pb.h"

namespace warpline::cli {
namespace {

using warpline_internal::LeaseList;
using warpline_internal::Operator;

// Tells `ids` in parts of `at_once`.
class Teller {
 public:
  Teller(std::vector<std::string> ids, size_t at_once) : ids_(std::move(ids)), at_once_(at_once) {}

  absl::StatusOr<LeaseList> operator()(const Operator& request) {
    ++calls;
    LeaseList list;
    list.set_from_follower(true);
    for (const std::string& id : ids_) {
      if (id <= request.page().after()) continue;
      if (static_cast<size_t>(list.leases_size()) == at_once_) {
        list.set_next(list.leases(list.leases_size() - 1).id());
        break;
      }
      list.add_leases()->set_id(id);
    }
    return list;
  }

  int calls = 0;

 private:
  const std::vector<std::string> ids_;
  const size_t at_once_;
};

TEST(AskForAllTest, PutsThePartsTogether) {
  Teller teller({"a", "b", "c", "d", "e"}, 2);
  const auto list = AskForAll(Operator(), [&](const Operator& part) { return teller(part); });
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->leases_size(), 5);
  EXPECT_EQ(list->leases(4).id(), "e");
  EXPECT_TRUE(list->from_follower());
  EXPECT_EQ(list->next(), "");
  EXPECT_EQ(teller.calls, 3);
}

TEST(AskForAllTest, AnErrorOfAnyPartIsTheErrorOfTheList) {
  int calls = 0;
  const auto list = AskForAll(Operator(), [&](const Operator&) -> absl::StatusOr<LeaseList> {
    if (++calls == 3) return absl::UnavailableError("gone");
    LeaseList part;
    part.set_next(std::to_string(calls));
    return part;
  });
  EXPECT_TRUE(absl::IsUnavailable(list.status()));
}

TEST(AskForAllTest, AListWithoutAnEndIsRefused) {
  const auto circle = AskForAll(Operator(), [](const Operator&) -> absl::StatusOr<LeaseList> {
    LeaseList part;
    part.set_next("a");
    return part;
  });
  EXPECT_TRUE(absl::IsInternal(circle.status()));
  int calls = 0;
  const auto endless = AskForAll(Operator(), [&](const Operator&) -> absl::StatusOr<LeaseList> {
    LeaseList part;
    part.add_leases()->set_reason(std::string(16 << 20, 'x'));
    part.set_next(PageKey(static_cast<uint64_t>(++calls)));
    return part;
  });
  EXPECT_TRUE(absl::IsResourceExhausted(endless.status()));
}

TEST(AskForAllTest, AnOlderOneThatKnowsNoPartsTellsAll) {
  const auto list = AskForAll(Operator(), [](const Operator&) -> absl::StatusOr<LeaseList> {
    LeaseList all;
    all.add_leases();
    return all;
  });
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->leases_size(), 1);
}

}  // namespace
}  // namespace warpline::cli
