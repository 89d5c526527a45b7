#include "scheduler/page/page_handler.h"

#include <iterator>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "scheduler/page/assets.h"
#include "scheduler/page/sign_in.h"

namespace warpline::scheduler::page {
namespace {

class FakePool : public PoolSource {
 public:
  absl::StatusOr<Viewer> ViewerOf(const std::string& credential) override {
    ++asked;
    if (!status.ok()) return status;
    if (credential == "operators") return Viewer{.is_operator = true};
    if (credential == "acmes") return Viewer{.tenant = "acme"};
    return absl::UnauthenticatedError("secret words");
  }
  absl::StatusOr<PoolPicture> Take() override {
    ++taken;
    if (!status.ok()) return status;
    PoolPicture picture;
    for (const char* const name : {"acme", "umbrella"}) {
      picture.pool.tenants.emplace_back().name = name;
    }
    picture.pool.epoch = epoch;
    return picture;
  }

  absl::Status status;
  uint64_t epoch = 1;
  int asked = 0;
  int taken = 0;
};

class PageHandlerTest : public ::testing::Test {
 protected:
  PageResponse Get(const std::string& authorization, const std::string& if_none_match = "") {
    return handler_.Answer({"GET", "/pool.json", authorization, if_none_match});
  }
  static std::string Header(const PageResponse& response, const std::string& name) {
    for (const auto& [key, value] : response.headers) {
      if (key == name) return value;
    }
    return "";
  }

  FakePool pool_;
  absl::Time now_ = absl::FromUnixSeconds(1800000000);
  PageHandler handler_{&pool_, [this] { return now_; }};
};

TEST_F(PageHandlerTest, ThePoolIsForWhoShowsACredential) {
  for (const char* const authorization :
       {"", "operators", "Basic b3BlcmF0b3Jz", "Bearer ", "Bearer wrong", "Bearer operators x",
        "Bearer oper\nators", "Digest operators"}) {
    const PageResponse response = Get(authorization);
    EXPECT_EQ(response.status, 401) << authorization;
    EXPECT_FALSE(absl::StrContains(response.body, "acme"));
    EXPECT_FALSE(absl::StrContains(response.body, "secret words"));
  }
  EXPECT_EQ(pool_.taken, 0);
  EXPECT_EQ(Get("Bearer operators").status, 200);
  EXPECT_TRUE(absl::StrContains(Get("bearer operators").body, "umbrella"));
  EXPECT_EQ(Header(Get("Bearer operators"), "Cache-Control"), "no-store");
}

TEST_F(PageHandlerTest, EachViewerGetsItsOwnView) {
  EXPECT_TRUE(absl::StrContains(Get("Bearer operators").body, "umbrella"));
  const PageResponse tenants = Get("Bearer acmes");
  EXPECT_TRUE(absl::StrContains(tenants.body, "acme"));
  EXPECT_FALSE(absl::StrContains(tenants.body, "umbrella"));
  EXPECT_TRUE(absl::StrContains(Get("Bearer operators").body, "umbrella"));
  EXPECT_EQ(pool_.taken, 1);
}

TEST_F(PageHandlerTest, AnEtagOfOneViewerIsWorthNothingToAnother) {
  const std::string etag = Header(Get("Bearer operators"), "ETag");
  EXPECT_EQ(Get("Bearer operators", etag).status, 304);
  EXPECT_EQ(Get("Bearer acmes", etag).status, 200);
  EXPECT_EQ(Get("", etag).status, 401);
  EXPECT_EQ(Get("Bearer operators", "\"\"").status, 200);
}

TEST_F(PageHandlerTest, AllTogetherLookOnceASecond) {
  for (int i = 0; i < 100; ++i) Get("Bearer operators");
  EXPECT_EQ(pool_.taken, 1);
  now_ += ViewCache::kAge;
  pool_.epoch = 2;
  EXPECT_TRUE(absl::StrContains(Get("Bearer operators").body, "\"epoch\":2"));
  EXPECT_EQ(pool_.taken, 2);
}

TEST_F(PageHandlerTest, WhoGuessesIsToldSoAndKeepsNobodyOut) {
  EXPECT_EQ(Get("Bearer operators").status, 200);
  const auto guess = [&](const std::string& peer, int number) {
    PageRequest request = {"GET", "/pool.json", absl::StrCat("Bearer guess", number)};
    request.peer = peer;
    return handler_.Answer(request).status;
  };
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    if (guess("127.0.0.1", i) == 429) ++refused;
  }
  EXPECT_EQ(refused, 1000 - SignIn::kFailuresAtOnce);
  // Neither one that was let in before nor one that comes for the first time is kept out, and
  // another peer's mistake is told as one.
  EXPECT_EQ(Get("Bearer operators").status, 200);
  EXPECT_EQ(Get("Bearer acmes").status, 200);
  EXPECT_EQ(guess("127.0.0.2", 0), 401);
  EXPECT_EQ(guess("127.0.0.1", 0), 429);
  now_ += absl::Seconds(1);
  EXPECT_EQ(guess("127.0.0.1", 0), 401);
}

TEST_F(PageHandlerTest, PeersWithoutEndHaveOneBudgetTogether) {
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    PageRequest request = {"GET", "/pool.json", "Bearer wrong"};
    request.peer = absl::StrCat("127.0.", i / 250, ".", i % 250);
    if (handler_.Answer(request).status == 429) ++refused;
  }
  EXPECT_EQ(refused, 1000 - SignIn::kMostPeers - SignIn::kFailuresAtOnce);
  EXPECT_EQ(Get("Bearer operators").status, 200);
}

TEST_F(PageHandlerTest, WhereNobodyKnowsStrangersLearnNothing) {
  pool_.status = absl::UnavailableError("etcd at 10.0.0.1 is away");
  const PageResponse response = Get("Bearer operators");
  EXPECT_EQ(response.status, 503);
  EXPECT_FALSE(absl::StrContains(response.body, "10.0.0.1"));
  EXPECT_EQ(handler_.Answer({"GET", "/"}).status, 200);
  pool_.status = absl::OkStatus();
  EXPECT_EQ(Get("Bearer operators").status, 200);
}

TEST_F(PageHandlerTest, ItOnlyShows) {
  for (const char* const method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT",
                                   "get", "", "PROPFIND", "GET /"}) {
    for (const char* const path : {"/", "/pool.json"}) {
      const PageResponse response = handler_.Answer({method, path, "Bearer operators"});
      EXPECT_EQ(response.status, 405) << method;
      EXPECT_EQ(Header(response, "Allow"), "GET, HEAD");
    }
  }
  EXPECT_EQ(pool_.asked, 0);
  const PageResponse head = handler_.Answer({"HEAD", "/pool.json", "Bearer operators"});
  EXPECT_EQ(head.status, 200);
  EXPECT_TRUE(head.body.empty());
}

TEST_F(PageHandlerTest, FilesAreServedByTheirNamesAlone) {
  for (const Asset& asset : Assets()) {
    const PageResponse response = handler_.Answer({"GET", std::string(asset.path)});
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, asset.content);
    EXPECT_EQ(Header(response, "Content-Type"), asset.type);
    EXPECT_EQ(handler_.Answer({"GET", std::string(asset.path), "", std::string(asset.etag)}).status,
              304);
  }
  for (const char* const path : {"", "/index.html", "//", "/../etc/passwd", "/%2e%2e/etc/passwd",
                                 "/main.js/", "/main.js?x", "/pool.json?credential=operators",
                                 "/Pool.json", "/pool.json/", "http://x/pool.json", "*"}) {
    const PageResponse response = handler_.Answer({"GET", path, "Bearer operators"});
    EXPECT_EQ(response.status, 404) << path;
    EXPECT_FALSE(absl::StrContains(response.body, "umbrella"));
  }
}

// Whatever is asked, nobody without a credential hears of a tenant, and there is always an answer.
TEST_F(PageHandlerTest, AnyBytesAreAnswered) {
  std::mt19937 random(42);
  const std::string pieces[] = {"GET",   "HEAD", "/",    "/pool.json", "Bearer ", "operators",
                                "acmes", "\"",   "\r\n", "..",         "%00",     "?"};
  const auto any = [&] {
    std::string text;
    for (uint32_t i = random() % 6; i > 0; --i) {
      text += random() % 2 == 0 ? pieces[random() % std::size(pieces)]
                                : std::string(random() % 40, static_cast<char>(random() % 256));
    }
    return text;
  };
  for (int i = 0; i < 20000; ++i) {
    PageRequest request = {any(), any(), any(), any()};
    if (i % 2 == 0) request.method = "GET";
    if (i % 4 == 0) request.path = "/pool.json";
    const PageResponse response = handler_.Answer(request);
    EXPECT_TRUE(response.status == 200 || response.status == 304 || response.status >= 400);
    const bool known = BearerCredential(request.authorization) == "operators" ||
                       BearerCredential(request.authorization) == "acmes";
    EXPECT_TRUE(known || !absl::StrContains(response.body, "umbrella"));
    now_ += absl::Milliseconds(1);
  }
}

TEST(BearerCredentialTest, IsOneWordOfPlainBytes) {
  EXPECT_EQ(BearerCredential("Bearer abc"), "abc");
  EXPECT_EQ(BearerCredential("BEARER abc"), "abc");
  EXPECT_EQ(BearerCredential("Bearer  abc"), "");
  EXPECT_EQ(BearerCredential("Bearer abc "), "");
  EXPECT_EQ(BearerCredential("Bearerabc"), "");
  EXPECT_EQ(BearerCredential("Bearer " + std::string(257, 'a')), "");
  EXPECT_EQ(BearerCredential(absl::string_view("Bearer a\0b", 10)), "");
}

}  // namespace
}  // namespace warpline::scheduler::page
