#include "common/lease/lease_key.h"

#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

// Listens in place of the keeper, and sends what it is given to the first that connects.
class Keeper {
 public:
  Keeper(const LeaseKey& key, std::string bytes)
      : listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), bytes_(std::move(bytes)) {
    const sockaddr_un address = key.address();
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
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

std::string FileWith(const std::string& text) {
  const std::string path = testing::TempDir() + "/token";
  std::ofstream(path) << text;
  return path;
}

TEST(LeaseKeyTest, OpensWhatItHasSealedAndNothingElse) {
  const LeaseKey key = LeaseKey::New();
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
  EXPECT_FALSE(LeaseKey::New().Open(sealed).ok());
}

TEST(LeaseKeyTest, ItsTextMakesTheSameKey) {
  const LeaseKey key = LeaseKey::New();
  const LeaseKey same = *LeaseKey::Parse(key.text());
  EXPECT_EQ(*same.Open(*key.Seal("token")), "token");
  EXPECT_EQ(std::string(same.address().sun_path + 1), std::string(key.address().sun_path + 1));
  EXPECT_EQ(std::string(key.address().sun_path + 1).find(key.text()), std::string::npos);
  for (const std::string& text : {std::string(), key.text() + "0", key.text().substr(1) + "g"}) {
    EXPECT_EQ(LeaseKey::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(LeaseTokenTest, ComesFromTheKeeperBeforeAnyFile) {
  const LeaseKey key = LeaseKey::New();
  const Keeper keeper(key, *key.Seal("fresh"));
  EXPECT_EQ(*ReadLeaseToken({.key = key.text(), .file = FileWith("old\n")}), "fresh");
}

TEST(LeaseTokenTest, IsNotTakenFromAProcessWithoutTheKey) {
  const LeaseKey key = LeaseKey::New();
  for (const std::string& bytes : {std::string(), std::string("token"), *LeaseKey::New().Seal("t"),
                                   std::string(size_t{1} << 20, 'x')}) {
    const Keeper keeper(key, bytes);
    EXPECT_EQ(*ReadLeaseToken({.key = key.text(), .file = FileWith("own\r\n")}), "own");
  }
}

TEST(LeaseTokenTest, WithoutKeeperAndFileTheErrorSaysWhatToDo) {
  const auto message = [](const LeaseTokenPlace& place) {
    const auto token = ReadLeaseToken(place);
    EXPECT_EQ(token.status().code(), absl::StatusCode::kNotFound);
    return std::string(token.status().message());
  };
  const std::string key = LeaseKey::New().text();
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
