#include "common/lease/lease_key.h"

#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/crypto/openssl_at_exit.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

constexpr char kEndpoint[] = "gpu1:14000";

std::string FilePath() { return testing::TempDir() + "/token"; }

LeaseKey NewKey() { return LeaseKey::New(kEndpoint, FilePath()); }

UniqueFd ListenFor(const LeaseKey& key, int flags = 0) {
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  const sockaddr_un address = key.address();
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  return listener;
}

// Listens in place of the keeper, and sends what it is given to the first that connects.
class Keeper {
 public:
  Keeper(const LeaseKey& key, std::string bytes)
      : listener_(ListenFor(key)), bytes_(std::move(bytes)) {
    thread_ = std::thread([this] {
      const UniqueFd peer(accept(listener_.get(), nullptr, nullptr));
      (void)send(peer.get(), bytes_.data(), bytes_.size(), MSG_NOSIGNAL);
    });
  }
  ~Keeper() { thread_.join(); }

 private:
  const UniqueFd listener_;
  const std::string bytes_;
  std::thread thread_;
};

// Listens in place of the keeper, and has a clock: whenever it is asked, a second has passed and
// another byte comes.
class DrippingKeeper {
 public:
  DrippingKeeper(const LeaseKey& key, std::string bytes)
      : listener_(ListenFor(key, SOCK_NONBLOCK)), bytes_(std::move(bytes)) {}

  absl::Time Now() {
    if (!peer_.valid()) peer_ = UniqueFd(accept(listener_.get(), nullptr, nullptr));
    if (peer_.valid() && sent_ < bytes_.size()) {
      EXPECT_EQ(send(peer_.get(), &bytes_[sent_++], 1, MSG_NOSIGNAL), 1);
      if (sent_ == bytes_.size()) shutdown(peer_.get(), SHUT_WR);
    }
    return now_ += absl::Seconds(1);
  }

 private:
  const UniqueFd listener_;
  const std::string bytes_;
  UniqueFd peer_;
  size_t sent_ = 0;
  absl::Time now_ = absl::UnixEpoch();
};

std::string FileWith(const std::string& text) {
  std::ofstream(FilePath()) << text;
  return FilePath();
}

LeaseTokenPlace PlaceOf(const LeaseKey& key) {
  return {.key = key.text(), .file = FilePath(), .endpoint = kEndpoint};
}

TEST(LeaseKeyTest, OpensWhatItHasSealedAndNothingElse) {
  const LeaseKey key = NewKey();
  const std::string sealed = *key.Seal("token");
  EXPECT_EQ(*key.Open(sealed), "token");
  EXPECT_EQ(sealed.find("token"), std::string::npos);
  EXPECT_NE(*key.Seal("token"), sealed);
  EXPECT_EQ(*key.Open(*key.Seal("")), "");
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_EQ(key.Open(changed).status().code(), absl::StatusCode::kUnauthenticated) << i;
    EXPECT_FALSE(key.Open(sealed.substr(0, i)).ok()) << i;
  }
  EXPECT_FALSE(key.Open(sealed + "x").ok());
  EXPECT_FALSE(NewKey().Open(sealed).ok());
}

TEST(LeaseKeyDeathTest, SealingAndOpeningLeaveOpenSslInPlaceAtTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        (void)NewKey().Seal("a token");
        ExitAndSeeOpenSsl();
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        (void)NewKey().Open(std::string(100, 'x'));
        ExitAndSeeOpenSsl();
      },
      testing::ExitedWithCode(0), "");
}

TEST(LeaseKeyTest, ItsTextMakesTheSameKey) {
  const LeaseKey key = NewKey();
  const LeaseKey same = *LeaseKey::Parse(key.text());
  EXPECT_EQ(key.text().size(), 96u);
  EXPECT_EQ(*same.Open(*key.Seal("token")), "token");
  EXPECT_EQ(std::string(same.address().sun_path + 1), std::string(key.address().sun_path + 1));
  EXPECT_TRUE(same.IsForEndpoint(kEndpoint));
  EXPECT_TRUE(same.IsForFile(FilePath()));
  EXPECT_FALSE(same.IsForEndpoint(FilePath()));
  EXPECT_FALSE(same.IsForFile(""));
  EXPECT_EQ(std::string(key.address().sun_path + 1).find(key.text()), std::string::npos);
  for (const std::string& text : {std::string(), key.text() + "0", key.text().substr(1) + "g"}) {
    EXPECT_EQ(LeaseKey::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(LeaseTokenTest, ComesFromTheKeeperBeforeAnyFile) {
  const LeaseKey key = NewKey();
  const Keeper keeper(key, *key.Seal("fresh"));
  FileWith("old\n");
  EXPECT_EQ(*ReadLeaseToken(PlaceOf(key)), "fresh");
}

TEST(LeaseTokenTest, IsNotSentToAnotherEndpoint) {
  FileWith("own\n");
  LeaseTokenPlace place = PlaceOf(NewKey());
  EXPECT_TRUE(NamesLease(place));
  place.endpoint = "  gpu1:14000\n";
  EXPECT_TRUE(NamesLease(place));
  place.endpoint = "gpu2:14000";
  EXPECT_FALSE(NamesLease(place));
  EXPECT_EQ(*ReadLeaseToken(place), "");
  place.file.clear();
  EXPECT_EQ(*ReadLeaseToken(place), "");
}

TEST(LeaseTokenTest, AnotherFileCountsInPlaceOfTheKey) {
  const LeaseKey key = NewKey();
  // Nobody asks it.
  const UniqueFd keeper = ListenFor(key);
  LeaseTokenPlace place = PlaceOf(key);
  place.file = testing::TempDir() + "/another";
  for (const char* const endpoint : {kEndpoint, "gpu2:14000"}) {
    place.endpoint = endpoint;
    unlink(place.file.c_str());
    EXPECT_EQ(ReadLeaseToken(place).status().code(), absl::StatusCode::kNotFound);
    std::ofstream(place.file) << "another\n";
    EXPECT_EQ(*ReadLeaseToken(place), "another");
  }
}

TEST(LeaseTokenTest, AProgramThatDropsTheFilesVariableHasTheKeyStill) {
  const LeaseKey key = NewKey();
  const Keeper keeper(key, *key.Seal("fresh"));
  EXPECT_EQ(*ReadLeaseToken({.key = key.text(), .file = "", .endpoint = kEndpoint}), "fresh");
}

TEST(LeaseTokenTest, WithoutVariablesThereIsNoLease) {
  EXPECT_FALSE(NamesLease({.key = "", .file = "", .endpoint = kEndpoint}));
  EXPECT_EQ(*ReadLeaseToken({.key = "", .file = "", .endpoint = kEndpoint}), "");
}

TEST(LeaseTokenTest, IsNotWaitedForByteByByte) {
  const LeaseKey key = NewKey();
  DrippingKeeper keeper(key, *key.Seal("fresh"));
  FileWith("own\n");
  EXPECT_EQ(*ReadLeaseToken(PlaceOf(key), [&keeper] { return keeper.Now(); }), "own");
}

TEST(LeaseTokenTest, IsNotTakenFromAProcessWithoutTheKey) {
  const LeaseKey key = NewKey();
  for (const std::string& bytes : {std::string(), std::string("token"), *NewKey().Seal("t"),
                                   std::string(size_t{1} << 20, 'x')}) {
    const Keeper keeper(key, bytes);
    FileWith("own\r\n");
    EXPECT_EQ(*ReadLeaseToken(PlaceOf(key)), "own");
  }
}

TEST(LeaseTokenTest, WithoutKeeperAndFileTheErrorSaysWhatToDo) {
  const auto message = [](LeaseTokenPlace place) {
    place.endpoint = kEndpoint;
    const auto token = ReadLeaseToken(place);
    EXPECT_EQ(token.status().code(), absl::StatusCode::kNotFound);
    return std::string(token.status().message());
  };
  const std::string key = LeaseKey::New(kEndpoint, "/nonexistent/token").text();
  const std::string both = message({.key = key, .file = "/nonexistent/token"});
  for (const char* part : {"has ended", "/nonexistent/token", "`warpline hold`"}) {
    EXPECT_NE(both.find(part), std::string::npos) << both;
  }
  EXPECT_NE(message({.key = key}).find("`warpline hold`"), std::string::npos);
  EXPECT_NE(message({.key = "short"}).find("malformed"), std::string::npos);
  EXPECT_EQ(message({.file = "/nonexistent/token"}).find("LEASE_KEY"), std::string::npos);
}

}  // namespace
}  // namespace warpline
