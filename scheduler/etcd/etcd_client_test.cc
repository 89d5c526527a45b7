#include "scheduler/etcd/etcd_client.h"

#include <fstream>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/serving/tls_files.h"
#include "common/steady_time.h"
#include "gtest/gtest.h"
#include "scheduler/etcd/testing/local_etcd.h"
#include "transport/testing/certificates.h"
#include "transport/testing/temp_folder.h"

namespace warpline::scheduler {
namespace {

absl::Status Put(EtcdClient* client, const std::string& key, const std::string& value) {
  warpline_etcd::TxnRequest request;
  auto* const put = request.add_success()->mutable_request_put();
  put->set_key(key);
  put->set_value(value);
  return client->Commit(request).status();
}

absl::StatusOr<std::string> Get(EtcdClient* client, const std::string& key) {
  warpline_etcd::RangeRequest request;
  request.set_key(key);
  const auto found = client->Range(request);
  if (!found.ok()) return found.status();
  return found->kvs().empty() ? std::string() : found->kvs(0).value();
}

TEST(EtcdClientTest, OtherMembersAreAskedWhereOneDoesNotAnswer) {
  const auto etcd = LocalEtcd::Start();
  if (etcd == nullptr) GTEST_SKIP() << "etcd is not installed (apt-get install etcd-server)";
  EtcdClientOptions options = etcd->options();
  options.attempt = absl::Milliseconds(500);
  // Nobody listens at the first; the second takes connections and answers nothing.
  const auto silent = LocalEtcd::Start();
  ASSERT_NE(silent, nullptr);
  silent->Pause();
  options.members.insert(options.members.begin(), {.address = silent->address()});
  options.members.insert(options.members.begin(), {.address = "127.0.0.1:1"});
  EtcdClient client(options);
  EXPECT_EQ(Get(&client, "k").value_or("?"), "");
  // It stays with the one that answers: otherwise no call would take less than an attempt.
  absl::Duration took = options.attempt;
  while (took >= options.attempt) {
    const absl::Time began = SteadyNow();
    EXPECT_TRUE(Put(&client, "k", "v").ok());
    EXPECT_EQ(Get(&client, "k").value_or("?"), "v");
    took = SteadyNow() - began;
  }
}

TEST(EtcdClientTest, ALeaseTakesItsKeysAlong) {
  const auto etcd = LocalEtcd::Start();
  if (etcd == nullptr) GTEST_SKIP() << "etcd is not installed (apt-get install etcd-server)";
  EtcdClient client(etcd->options());
  const auto lease = client.GrantLease(absl::Seconds(5));
  ASSERT_TRUE(lease.ok()) << lease.status();
  warpline_etcd::TxnRequest request;
  auto* const put = request.add_success()->mutable_request_put();
  put->set_key("k");
  put->set_value("v");
  put->set_lease(*lease);
  ASSERT_TRUE(client.Commit(request).ok());
  EXPECT_EQ(client.KeepLeaseAlive(*lease).value(), absl::Seconds(5));
  EXPECT_TRUE(client.RevokeLease(*lease).ok());
  EXPECT_EQ(Get(&client, "k").value_or("?"), "");
  EXPECT_EQ(client.KeepLeaseAlive(*lease).value(), absl::ZeroDuration());
  EXPECT_TRUE(client.RevokeLease(*lease).ok());
}

class EtcdTlsTest : public ::testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  TlsFiles ClientOf(const testing::TestCa& signer, const testing::TestCa& trusted,
                    const std::string& name) {
    const auto issued = signer.Issue({.name = name});
    return {.ca = File(name + ".ca", trusted.certificate()),
            .cert = File(name + ".crt", issued.certificate),
            .key = File(name + ".key", issued.key),
            .server_name = "etcd"};
  }

  testing::TempFolder folder_;
};

TEST_F(EtcdTlsTest, BothEndsAreChecked) {
  const testing::TestCa ca("pool");
  const testing::TestCa other("other");
  const auto server = ca.Issue({.name = "etcd"});
  const auto etcd =
      LocalEtcd::Start(ClientOf(ca, ca, "scheduler"), File("server.crt", server.certificate),
                       File("server.key", server.key));
  if (etcd == nullptr) GTEST_SKIP() << "etcd is not installed (apt-get install etcd-server)";
  EtcdClient client(etcd->options());
  EXPECT_TRUE(Put(&client, "k", "v").ok());
  EXPECT_EQ(Get(&client, "k").value_or("?"), "v");
  const auto refused = [&](const TlsFiles& files) {
    EtcdClientOptions options = etcd->options();
    options.members.front().tls = std::make_shared<TlsSource>(TlsSource::Side::kClient, files);
    EtcdClient stranger(options);
    return !Get(&stranger, "k").ok();
  };
  EXPECT_TRUE(refused(ClientOf(other, ca, "stranger")));
  EXPECT_TRUE(refused(ClientOf(ca, other, "mistaken")));
  TlsFiles misnamed = ClientOf(ca, ca, "misnamed");
  misnamed.server_name = "elsewhere";
  EXPECT_TRUE(refused(misnamed));
  EtcdClientOptions plain = etcd->options();
  plain.members.front().tls = nullptr;
  EtcdClient in_plain_text(plain);
  EXPECT_FALSE(Get(&in_plain_text, "k").ok());
}

}  // namespace
}  // namespace warpline::scheduler
