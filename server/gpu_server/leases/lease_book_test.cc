#include "server/gpu_server/leases/lease_book.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

using testing::HasSubstr;

constexpr uint64_t kGiB = 1ull << 30;

class LeaseBookTest : public testing::Test {
 protected:
  std::unique_ptr<LeaseBook> Book(bool required, uint64_t session_memory = 0) {
    LeaseBookOptions options;
    options.server_name = "s";
    options.required = required;
    options.session_memory_bytes = session_memory;
    options.peer_memory_bytes = peer_memory_;
    options.payer_host_bytes = payer_host_;
    options.max_local = max_local_;
    options.max_local_of_peer = 3;
    options.max_local_sessions = 2;
    options.clock = [this] { return now_; };
    return LeaseBook::Create(options).value();
  }

  // Makes the book of a server that has a scheduler and knows its key.
  std::unique_ptr<LeaseBook> Scheduled(uint64_t session_memory = 0) {
    auto book = Book(true, session_memory);
    book->SetKeys({key_.verify_key()});
    return book;
  }

  std::string Token(const std::string& lease, const std::string& server = "s") {
    LeaseToken token;
    token.epoch = epoch_;
    token.lease = lease;
    token.moved_from = moved_from_;
    token.tenant = "a";
    token.server = server;
    token.slice.memory_bytes = 4 * kGiB;
    token.slice.staging_bytes = staging_bytes_;
    token.max_sessions = 2;
    token.expires = now_ + absl::Minutes(1);
    token.ends = ends_;
    return SignToken(key_, token).value();
  }

  static absl::StatusCode Code(const absl::StatusOr<LeaseMembership>& membership) {
    return membership.status().code();
  }

  uint64_t peer_memory_ = 0;
  uint64_t payer_host_ = 0;
  uint32_t max_local_ = 3;
  absl::Time now_ = absl::FromUnixSeconds(1800000000);
  absl::Time ends_ = absl::InfiniteFuture();
  uint64_t epoch_ = 0;
  uint64_t staging_bytes_ = 0;
  std::string moved_from_;  // Makes it a ticket.
  const SigningKey key_ = SigningKey::Generate().value();
};

TEST_F(LeaseBookTest, WithoutASchedulerNoTokenIsNeeded) {
  auto book = Book(false);
  const auto membership = book->Join("");
  ASSERT_TRUE(membership.ok());
  EXPECT_FALSE(membership->entitlement().leased());
  EXPECT_EQ(membership->entitlement().rights, kAllRights);
  EXPECT_EQ(Code(book->Join(Token("1"))), absl::StatusCode::kUnauthenticated);
}

TEST_F(LeaseBookTest, WithASchedulerOnlyItsTokensOpen) {
  auto book = Scheduled();
  EXPECT_EQ(Code(book->Join("")), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Code(book->Join("garbage.garbage")), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Code(book->Join(Token("1", "other"))), absl::StatusCode::kUnauthenticated);
  const std::string token = Token("1");
  EXPECT_TRUE(book->Join(token).ok());
  now_ += absl::Minutes(2);
  EXPECT_EQ(Code(book->Join(token)), absl::StatusCode::kUnauthenticated);
  std::string text;
  EXPECT_EQ(book->OpenLocal(kGiB, {}, 0, &text).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(LeaseBookTest, ATokenThatALaterTermReplacedOpensNothing) {
  auto book = Scheduled();
  epoch_ = 5;
  const std::string old = Token("1");
  const std::string others = Token("2");
  EXPECT_TRUE(book->Join(old).ok());
  epoch_ = 8;
  EXPECT_TRUE(book->Join(Token("1")).ok());
  EXPECT_EQ(Code(book->Join(old)), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(book->Join(others).ok());
}

TEST_F(LeaseBookTest, OnlyATicketForThisServerMovesALease) {
  auto book = Scheduled();
  EXPECT_TRUE(absl::IsUnauthenticated(book->OpenTicket(Token("1")).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(book->OpenTicket("garbage.garbage").status()));
  moved_from_ = "former";
  const std::string ticket = Token("1");
  ASSERT_TRUE(book->OpenTicket(ticket).ok());
  EXPECT_EQ(book->OpenTicket(ticket)->moved_from, "former");
  EXPECT_TRUE(absl::IsUnauthenticated(book->OpenTicket(Token("1", "other")).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(Book(false)->OpenTicket(ticket).status()));
  EXPECT_TRUE(absl::IsUnavailable(Book(true)->OpenTicket(ticket).status()));
  // It opens no session, by whatever way.
  EXPECT_EQ(Code(book->Join(ticket)), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Code(book->Rejoin(ticket, {}, "peer")), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(absl::IsUnauthenticated(book->Show(ticket).status()));
  bool here = false;
  EXPECT_TRUE(absl::IsUnauthenticated(book->LeaseOf(ticket, {}, &here).status()));
  now_ += absl::Minutes(2);
  EXPECT_TRUE(absl::IsUnauthenticated(book->OpenTicket(ticket).status()));
}

TEST_F(LeaseBookTest, ALeaseThatArrivesIsNotReportedBeforeItIsHere) {
  auto book = Scheduled();
  // It was here before.
  book->MarkEnded("1", {"it is another server's", EndCause::kNamesNobody});
  EXPECT_EQ(Code(book->Join(Token("1"))), absl::StatusCode::kPermissionDenied);
  moved_from_ = "former";
  const LeaseToken ticket = *book->OpenTicket(Token("1"));
  auto first = book->JoinMoved(ticket, {}, "peer");
  const auto second = book->JoinMoved(ticket, {}, "peer");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->entitlement().lease, "1");
  EXPECT_EQ(Code(book->JoinMoved(ticket, {}, "peer")), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(book->Sessions().empty());
  book->Arrive("1");
  EXPECT_EQ(book->Sessions()["1"], 2u);
}

TEST_F(LeaseBookTest, ATicketOfACertificateTakesItsSessionsAlone) {
  auto book = Scheduled();
  moved_from_ = "former";
  LeaseToken ticket = *book->OpenTicket(Token("1"));
  ticket.holder = {.certificate = "aa", .names = "cn=alice"};
  EXPECT_EQ(Code(book->JoinMoved(ticket, {.certificate = "bb", .names = "cn=bob"}, "peer")),
            absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(book->JoinMoved(ticket, ticket.holder, "peer").ok());
}

TEST_F(LeaseBookTest, ALeaseIsKnownByATokenForAnyServer) {
  auto book = Scheduled();
  bool here = false;
  EXPECT_EQ(*book->LeaseOf(Token("1"), {}, &here), "1");
  EXPECT_TRUE(here);
  const std::string others = Token("2", "other");
  EXPECT_EQ(*book->LeaseOf(others, {}, &here), "2");
  EXPECT_FALSE(here);
  EXPECT_FALSE(book->LeaseOf("garbage.garbage", {}, &here).ok());
  // Nobody gets a newer token for one that has expired.
  const std::string old = Token("1");
  now_ += absl::Minutes(2);
  EXPECT_TRUE(absl::IsUnauthenticated(book->LeaseOf(old, {}, &here).status()));
}

TEST_F(LeaseBookTest, BeforeTheSchedulersFirstWordNobodyIsTurnedAwayForGood) {
  EXPECT_EQ(Code(Book(true)->Join(Token("1"))), absl::StatusCode::kUnavailable);
}

TEST_F(LeaseBookTest, WithoutALeaseEachSessionHasWhatTheServerGives) {
  auto book = Book(false, kGiB);
  auto first = book->Join("").value();
  auto second = book->Join("").value();
  const auto quota = first.QuotaOn("x", 80 * kGiB, 16384);
  EXPECT_EQ(quota->limit_bytes(), kGiB);
  EXPECT_NE(second.QuotaOn("x", 80 * kGiB, 16384), quota);
  EXPECT_EQ(first.QuotaOn("x", kGiB / 2, 16384)->limit_bytes(), kGiB / 2);
  EXPECT_EQ(book->Show("")->MemoryOn(80 * kGiB), kGiB);
}

TEST_F(LeaseBookTest, APeerPaysForAllItsSessionsAndLeasesHere) {
  peer_memory_ = 3 * kGiB;
  auto book = Book(false, 2 * kGiB);
  std::string token;
  ASSERT_TRUE(book->OpenLocal(0, {}, 0, &token).ok());
  auto first = book->Join("", {}, "ipv4:10.0.0.1").value();
  auto leased = book->Join(token, {}, "ipv4:10.0.0.1").value();
  auto other = book->Join("", {}, "ipv4:10.0.0.2").value();
  EXPECT_EQ(first.payer(), leased.payer());
  EXPECT_NE(first.payer(), other.payer());
  const auto quota = first.QuotaOn("x", 80 * kGiB, 16384);
  Reservation held = quota->Reserve(2 * kGiB, 2 * kGiB, 1);
  EXPECT_EQ(held.bytes(), 2 * kGiB);
  Reservation more = leased.QuotaOn("x", 80 * kGiB, 16384)->Reserve(1, 2 * kGiB, 1);
  EXPECT_EQ(more.bytes(), kGiB);
  EXPECT_EQ(leased.QuotaOn("x", 80 * kGiB, 16384)->scarcer().limit_bytes(), 3 * kGiB);
  // Devices and peers are apart.
  EXPECT_EQ(first.QuotaOn("y", 80 * kGiB, 16384)->Reserve(1, kGiB, 1).bytes(), kGiB);
  EXPECT_EQ(other.QuotaOn("x", 80 * kGiB, 16384)->Reserve(1, 2 * kGiB, 1).bytes(), 2 * kGiB);
  // What is held of a session that has ended, by whom ever, stays on the peer's bill.
  { const LeaseMembership ended = std::move(first); }
  auto again = book->Join("", {}, "ipv4:10.0.0.1").value();
  EXPECT_EQ(again.QuotaOn("x", 80 * kGiB, 16384)->Reserve(1, kGiB, 1).bytes(), 0u);
  held = Reservation();
  EXPECT_EQ(again.QuotaOn("x", 80 * kGiB, 16384)->Reserve(1, kGiB, 1).bytes(), kGiB);
}

TEST_F(LeaseBookTest, ATenantOfASchedulerPaysForAllItsLeases) {
  peer_memory_ = kGiB;  // Of no concern to them.
  payer_host_ = 8 * kGiB;
  auto book = Scheduled();
  auto first = book->Join(Token("1"), {}, "ipv4:10.0.0.1").value();
  auto second = book->Join(Token("2"), {}, "ipv4:10.0.0.2").value();
  EXPECT_EQ(first.payer(), "tenant a");
  EXPECT_EQ(second.payer(), "tenant a");
  EXPECT_EQ(first.QuotaOn("x", 80 * kGiB, 16384)->Reserve(1, 4 * kGiB, 1).bytes(), 4 * kGiB);
  // Host memory that is shared with clients is a part of all that the tenant takes.
  Reservation held = first.PayersHostQuota()->Reserve(1, 6 * kGiB, 1);
  EXPECT_EQ(second.PayersHostQuota(), first.PayersHostQuota());
  EXPECT_EQ(second.HostQuota(64 * kGiB, 8 * kGiB)->Reserve(1, 4 * kGiB, 1).bytes(), 2 * kGiB);
}

TEST_F(LeaseBookTest, SessionsOfALeaseShareItsQuota) {
  // The limit for sessions without a lease does not bound the scheduler's leases.
  auto book = Scheduled(kGiB);
  auto first = book->Join(Token("1")).value();
  auto second = book->Join(Token("1")).value();
  auto other = book->Join(Token("2")).value();
  const auto quota = first.QuotaOn("x", 80 * kGiB, 16384);
  EXPECT_EQ(quota->limit_bytes(), 4 * kGiB);
  EXPECT_EQ(second.QuotaOn("x", 80 * kGiB, 16384), quota);
  EXPECT_NE(other.QuotaOn("x", 2 * kGiB, 16384), quota);
  EXPECT_EQ(other.QuotaOn("x", 80 * kGiB, 16384)->limit_bytes(), 2 * kGiB);
}

TEST_F(LeaseBookTest, ChunksAreInProportionToTheQuota) {
  auto book = Scheduled();
  auto membership = book->Join(Token("1")).value();  // 4 GiB.
  EXPECT_EQ(membership.QuotaOn("x", 16 * kGiB, 16384)->pieces()->limit_bytes(), 4096u);
  // Enough for something in any case.
  EXPECT_EQ(membership.QuotaOn("y", 80 * kGiB, 100)->pieces()->limit_bytes(), 64u);
  EXPECT_EQ(membership.QuotaOn("z", 0, 16384)->pieces()->limit_bytes(), 1024u);
  EXPECT_EQ(membership.QuotaOn("v", 160 * kGiB, 4096)->pieces()->limit_bytes(), 512u);
}

TEST_F(LeaseBookTest, HostMemoryIsInProportionToTheQuota) {
  auto book = Scheduled();
  auto first = book->Join(Token("1")).value();  // 4 GiB.
  auto second = book->Join(Token("1")).value();
  const auto quota = first.HostQuota(64 * kGiB, 8 * kGiB);
  EXPECT_EQ(quota->limit_bytes(), 32 * kGiB);
  EXPECT_EQ(second.HostQuota(64 * kGiB, 8 * kGiB), quota);
  EXPECT_EQ(book->Join(Token("2")).value().HostQuota(64 * kGiB, 1024 * kGiB)->limit_bytes(),
            4 * kGiB);
}

TEST_F(LeaseBookTest, HostMemoryIsWhatTheSliceSays) {
  auto book = Scheduled();
  staging_bytes_ = 64u << 20;
  auto first = book->Join(Token("1")).value();
  auto second = book->Join(Token("1")).value();
  const auto quota = first.HostQuota(64 * kGiB, 8 * kGiB);
  EXPECT_EQ(quota->limit_bytes(), 64u << 20);
  EXPECT_EQ(second.HostQuota(64 * kGiB, 8 * kGiB), quota);
  // No more than there is.
  EXPECT_EQ(book->Join(Token("2")).value().HostQuota(1 << 20, 8 * kGiB)->limit_bytes(), 1u << 20);
}

TEST_F(LeaseBookTest, HostMemoryThatOutlivesASessionCountsForTheNextOneOfItsLease) {
  auto book = Scheduled();
  Reservation held;
  {
    auto membership = book->Join(Token("1")).value();
    held = membership.HostQuota(64 * kGiB, 8 * kGiB)->Reserve(kGiB, kGiB, 1);
  }
  auto membership = book->Join(Token("1")).value();
  EXPECT_EQ(membership.HostQuota(64 * kGiB, 8 * kGiB)->used_bytes(), kGiB);
}

TEST_F(LeaseBookTest, MemoryOnItsWayBackCountsForTheNextSessionOfItsLease) {
  auto book = Scheduled();
  Reservation held;
  {
    auto membership = book->Join(Token("1")).value();
    held = membership.QuotaOn("x", 80 * kGiB, 16384)->Reserve(kGiB, kGiB, 1);
  }
  {
    auto membership = book->Join(Token("1")).value();
    EXPECT_EQ(membership.QuotaOn("x", 80 * kGiB, 16384)->used_bytes(), kGiB);
  }
  auto other = book->Join(Token("2")).value();
  EXPECT_EQ(other.QuotaOn("x", 80 * kGiB, 16384)->used_bytes(), 0u);
  held = Reservation();
  auto membership = book->Join(Token("1")).value();
  EXPECT_EQ(membership.QuotaOn("x", 80 * kGiB, 16384)->used_bytes(), 0u);
}

TEST_F(LeaseBookTest, QuotaIsOfEachDevice) {
  auto book = Scheduled();
  auto first = book->Join(Token("1")).value();
  auto second = book->Join(Token("1")).value();
  const auto quota = first.QuotaOn("x", 80 * kGiB, 16384);
  EXPECT_NE(first.QuotaOn("y", 80 * kGiB, 16384), quota);
  EXPECT_EQ(first.QuotaOn("z", 2 * kGiB, 16384)->limit_bytes(), 2 * kGiB);
  EXPECT_EQ(second.QuotaOn("y", 80 * kGiB, 16384), first.QuotaOn("y", 80 * kGiB, 16384));
}

TEST_F(LeaseBookTest, SessionsOfALeaseAreCounted) {
  auto book = Scheduled();
  auto first = book->Join(Token("1")).value();
  auto second = book->Join(Token("1")).value();
  EXPECT_EQ(Code(book->Join(Token("1"))), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(book->Sessions().at("1"), 2u);
  first = LeaseMembership();
  EXPECT_TRUE(book->IdleLeases().empty());
  EXPECT_TRUE(book->Join(Token("1")).ok());
  second = LeaseMembership();
  EXPECT_EQ(book->IdleLeases(), std::vector<std::string>{"1"});
  EXPECT_TRUE(book->Sessions().empty());
  book->ForgetIdle({"1"});
  EXPECT_TRUE(book->IdleLeases().empty());
}

TEST_F(LeaseBookTest, ALeaseOfWhichAnotherSessionIsExpectedIsNotIdleYet) {
  auto book = Scheduled();
  auto refused = book->Join(Token("1")).value();
  refused.ExpectAnother(absl::Seconds(10));
  refused = LeaseMembership();
  EXPECT_TRUE(book->IdleLeases().empty());
  EXPECT_TRUE(book->Sessions().empty());
  // It comes, and ends as any other.
  EXPECT_TRUE(book->Join(Token("1")).ok());
  EXPECT_EQ(book->IdleLeases(), std::vector<std::string>{"1"});
  book->ForgetIdle({"1"});
  // It does not come.
  refused = book->Join(Token("1")).value();
  refused.ExpectAnother(absl::Seconds(10));
  refused = LeaseMembership();
  now_ += absl::Seconds(9);
  EXPECT_TRUE(book->IdleLeases().empty());
  now_ += absl::Seconds(1);
  EXPECT_EQ(book->IdleLeases(), std::vector<std::string>{"1"});
  // Without a lease nothing is expected.
  LeaseMembership().ExpectAnother(absl::Seconds(10));
  Book(false)->Join("")->ExpectAnother(absl::Seconds(10));
}

TEST_F(LeaseBookTest, EndedLeaseTakesNoMoreSessions) {
  auto book = Scheduled();
  book->MarkEnded("1", {"the operator revoked it: too loud", EndCause::kRevoked});
  const auto membership = book->Join(Token("1"));
  EXPECT_EQ(Code(membership), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(membership.status().message().find("too loud"), std::string::npos);
  EXPECT_TRUE(book->Join(Token("2")).ok());
}

TEST_F(LeaseBookTest, LeaseWhoseTimeIsOverIsNamedOnce) {
  ends_ = now_ + absl::Seconds(30);
  auto book = Scheduled();
  const std::string token = Token("1");
  const auto membership = book->Join(token);
  EXPECT_TRUE(book->TakeEnded().empty());
  now_ = ends_;
  ASSERT_EQ(book->TakeEnded().size(), 1u);
  EXPECT_TRUE(book->TakeEnded().empty());
  EXPECT_FALSE(book->Join(token).ok());
}

TEST_F(LeaseBookTest, LocalLeaseIsSharedUntilItsHolderGivesItUp) {
  auto book = Book(false);
  std::string token;
  ASSERT_TRUE(book->OpenLocal(2 * kGiB, {}, 0, &token).ok());
  auto first = book->Join(token).value();
  auto second = book->Join(token).value();
  EXPECT_EQ(first.QuotaOn("x", 80 * kGiB, 16384)->limit_bytes(), 2 * kGiB);
  EXPECT_EQ(first.QuotaOn("x", 80 * kGiB, 16384), second.QuotaOn("x", 80 * kGiB, 16384));
  EXPECT_EQ(Code(book->Join(token)), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(book->CloseLocal(token).ok());
  first = LeaseMembership();
  second = LeaseMembership();
  EXPECT_EQ(Code(book->Join(token)), absl::StatusCode::kUnauthenticated);
}

TEST_F(LeaseBookTest, LocalLeaseGetsNoMoreThanASessionWithoutOne) {
  auto book = Book(false, kGiB);
  std::string token;
  ASSERT_TRUE(book->OpenLocal(8 * kGiB, {}, 0, &token).ok());
  EXPECT_EQ(book->Join(token).value().QuotaOn("x", 80 * kGiB, 16384)->limit_bytes(), kGiB);
  EXPECT_EQ(book->Show(token)->MemoryOn(80 * kGiB), kGiB);
  ASSERT_TRUE(book->OpenLocal(0, {}, 0, &token).ok());
  EXPECT_EQ(book->Join(token).value().QuotaOn("x", 80 * kGiB, 16384)->limit_bytes(), kGiB);
}

TEST_F(LeaseBookTest, LocalLeaseThatNobodyRenewsRunsOut) {
  auto book = Book(false);
  std::string token;
  std::string renewed;
  ASSERT_TRUE(book->OpenLocal(kGiB, {}, 0, &token).ok());
  now_ += absl::Seconds(50);
  ASSERT_TRUE(book->RenewLocal(token, &renewed).ok());
  now_ += absl::Seconds(50);
  EXPECT_FALSE(book->Join(token).ok());
  EXPECT_TRUE(book->Join(renewed).ok());
  now_ += absl::Seconds(60);
  EXPECT_EQ(book->RenewLocal(renewed, &token).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LeaseBookTest, ASessionOfAnotherServerShowsATokenThatHasExpired) {
  auto book = Scheduled();
  const std::string token = Token("1");
  const std::string elsewhere = Token("2", "other");
  const std::string revoked = Token("3");
  book->MarkEnded("3", {"revoked"});
  now_ += absl::Hours(1);
  EXPECT_EQ(Code(book->Join(token)), absl::StatusCode::kUnauthenticated);
  const auto again = book->Rejoin(token, {}, "");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->entitlement().lease, "1");
  // All else holds.
  EXPECT_EQ(Code(book->Rejoin(elsewhere, {}, "")), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Code(book->Rejoin(revoked, {}, "")), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Code(book->Rejoin(token.substr(1), {}, "")), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Code(book->Rejoin("", {}, "")), absl::StatusCode::kUnauthenticated);
  ends_ = now_ - absl::Seconds(1);
  EXPECT_EQ(Code(book->Rejoin(Token("4"), {}, "")), absl::StatusCode::kUnauthenticated);
}

TEST_F(LeaseBookTest, LocalLeasesAreBoundedAndExpiredOnesMakeRoom) {
  auto book = Book(false);
  std::string token;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(book->OpenLocal(kGiB, {}, 0, &token).ok());
  EXPECT_EQ(book->OpenLocal(kGiB, {}, 0, &token).status().code(),
            absl::StatusCode::kResourceExhausted);
  now_ += absl::Minutes(2);
  EXPECT_TRUE(book->OpenLocal(kGiB, {}, 0, &token).ok());
}

TEST_F(LeaseBookTest, OnePeerLeavesLocalLeasesToOthers) {
  max_local_ = 8;
  auto book = Book(false);
  const auto open = [&](const std::string& peer) {
    std::string token;
    const auto lease = book->OpenLocal(kGiB, {}, 0, &token, {}, peer);
    EXPECT_TRUE(lease.ok() || absl::IsResourceExhausted(lease.status())) << lease.status();
    return lease.ok() ? token : std::string(lease.status().message());
  };
  const std::string greedy = "ipv4:10.0.0.1";
  const std::string first = open(greedy);
  auto membership = book->Join(first, {}, greedy).value();
  open(greedy);
  open(greedy);
  EXPECT_THAT(open(greedy), HasSubstr("this client has as many leases as one may have here, 3"));
  // Those that it has given up, and that still have sessions, are its own.
  ASSERT_TRUE(book->CloseLocal(first).ok());
  EXPECT_THAT(open(greedy), HasSubstr("end some `warpline run` first"));
  for (const char* peer : {"ipv4:10.0.0.2", "cn=alice", "unix:uid=1000"}) {
    EXPECT_TRUE(book->Join(open(peer), {}, peer).ok()) << peer;
  }
  membership = LeaseMembership();
  EXPECT_TRUE(book->Join(open(greedy), {}, greedy).ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(book->Join(open("cn=bob")).ok());
  EXPECT_THAT(open("cn=carol"), HasSubstr("the server has as many leases as it keeps, 8"));
}

TEST_F(LeaseBookTest, AMembershipMayOutliveTheBook) {
  auto book = Scheduled();
  auto membership = book->Join(Token("1")).value();
  book.reset();
  EXPECT_EQ(membership.QuotaOn("x", 8 * kGiB, 16384)->limit_bytes(), 4 * kGiB);
}

TEST_F(LeaseBookTest, TokensAreJudgedByTheSchedulersClock) {
  auto book = Scheduled();
  const std::string token = Token("1");
  const absl::Time theirs = now_;
  now_ += absl::Hours(5);  // This host's clock is wrong.
  EXPECT_EQ(Code(book->Join(token)), absl::StatusCode::kUnauthenticated);
  book->SetSchedulerTime(theirs);
  EXPECT_TRUE(book->Join(token).ok());
  now_ += absl::Minutes(2);
  EXPECT_EQ(Code(book->Join(token)), absl::StatusCode::kUnauthenticated);
}

TEST_F(LeaseBookTest, LocalLeaseHasAsManySessionsAsItAskedFor) {
  auto book = Book(false);
  std::string token;
  ASSERT_TRUE(book->OpenLocal(kGiB, {}, 1, &token).ok());
  const auto membership = book->Join(token);
  ASSERT_TRUE(membership.ok());
  EXPECT_EQ(Code(book->Join(token)), absl::StatusCode::kResourceExhausted);
}

TEST_F(LeaseBookTest, ATokenOfACertificateOpensSessionsForThatOneOnly) {
  auto book = Book(false);
  const CertificateHolder alice = HolderOf("ipv4:10.0.0.7:5 cn=alice cert=00ff");
  const CertificateHolder mallory = HolderOf("ipv4:10.0.0.8:5 cn=mallory cert=1234");
  std::string token;
  ASSERT_TRUE(book->OpenLocal(kGiB, {}, 0, &token, alice).ok());
  EXPECT_EQ(Code(book->Join(token, mallory)), absl::StatusCode::kUnauthenticated);
  EXPECT_FALSE(book->Show(token, mallory).ok());
  std::string renewed;
  EXPECT_FALSE(book->RenewLocal(token, &renewed, mallory).ok());
  EXPECT_TRUE(book->Join(token, alice).ok());
}

TEST_F(LeaseBookTest, NobodyHearsForWhichTenantALeaseWasEnded) {
  auto book = Scheduled();
  book->MarkEnded("1", {"tenant acme needs its device and goes first", EndCause::kMakesWay});
  const auto membership = book->Join(Token("1"));
  EXPECT_EQ(membership.status().message(),
            "the lease was ended: a request that goes first needs its device");
}

TEST_F(LeaseBookTest, AnEndedLeaseIsRememberedForAsLongAsATokenMayBeGood) {
  auto book = Scheduled();
  LeaseToken token;
  token.lease = "1";
  token.server = "s";
  token.max_sessions = 2;
  token.expires = now_ + absl::Hours(24);
  const std::string text = SignToken(key_, token).value();
  book->MarkEnded("1", {"revoked", EndCause::kRevoked});
  now_ += absl::Hours(23);
  book->MarkEnded("2", {"another", EndCause::kRevoked});
  EXPECT_EQ(Code(book->Join(text)), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace warpline::server
