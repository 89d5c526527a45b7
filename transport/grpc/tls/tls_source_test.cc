// Which files TlsSource takes, and what it makes of files that change.
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/crypto/openssl_at_exit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/grpc/tls/grpc_tls.h"
#include "transport/grpc/tls/tls_check.h"
#include "transport/testing/certificates.h"
#include "transport/testing/temp_folder.h"

namespace warpline {
namespace {

using ::testing::HasSubstr;
using testing::IssuedCertificate;
using ::testing::Not;
using testing::TestCa;

TEST(TlsSourceDeathTest, ReadingCertificatesLeavesOpenSslInPlaceAtTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        (void)grpc_internal::ReadCertificate("no certificate");
        ExitAndSeeOpenSsl();
      },
      ::testing::ExitedWithCode(0), "");
}

class TlsSourceTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name);
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name), std::ios::trunc) << text;
  }
  void WriteAll(const IssuedCertificate& own) {
    Write("ca.crt", ca_.certificate());
    Write("own.crt", own.certificate);
    Write("own.key", own.key);
  }
  TlsFiles Files() const {
    return {.ca = Path("ca.crt"), .cert = Path("own.crt"), .key = Path("own.key")};
  }
  // What a server that starts with these files says.
  std::string Complaint(const TlsFiles& files) {
    const auto current = TlsSource(TlsSource::Side::kServer, files).Current();
    EXPECT_EQ(current.status().code(), absl::StatusCode::kUnauthenticated);
    return std::string(current.status().message());
  }

  testing::TempFolder folder_;
  TestCa ca_{"root"};
};

TEST_F(TlsSourceTest, GoodFilesAreRead) {
  const IssuedCertificate own = ca_.Issue({.name = "a"});
  WriteAll(own);
  const auto current = TlsSource(TlsSource::Side::kServer, Files()).Current();
  ASSERT_EQ(current.status(), absl::OkStatus());
  EXPECT_EQ((*current)->root_certs, ca_.certificate());
  EXPECT_EQ((*current)->cert_chain, own.certificate);
  EXPECT_EQ((*current)->private_key, own.key);
}

TEST_F(TlsSourceTest, FilesAreReadWhateverEditorWroteThem) {
  const IssuedCertificate own = ca_.Issue({.name = "a"});
  const auto edited = [](const std::string& text) {
    return "\xef\xbb\xbf" + absl::StrReplaceAll(text, {{"\n", "\r\n"}});
  };
  Write("ca.crt", edited(ca_.certificate()));
  Write("own.crt", edited(own.certificate));
  Write("own.key", edited(own.key));
  const auto current = TlsSource(TlsSource::Side::kServer, Files()).Current();
  ASSERT_EQ(current.status(), absl::OkStatus());
  EXPECT_EQ((*current)->private_key.find("-----BEGIN"), 0u);
}

TEST_F(TlsSourceTest, AnIncompleteConfigurationNamesWhatIsMissing) {
  WriteAll(ca_.Issue({.name = "a"}));
  TlsFiles files = Files();
  files.key.clear();
  EXPECT_THAT(Complaint(files), HasSubstr("--tls_key is missing"));
  const auto client = TlsSource(TlsSource::Side::kClient, files).Current();
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("WARPLINE_TLS_KEY is missing"));
  files.cert.clear();
  EXPECT_TRUE(TlsSource(TlsSource::Side::kClient, files).Current().ok());
}

TEST_F(TlsSourceTest, FilesThatCannotBeReadAreNamed) {
  WriteAll(ca_.Issue({.name = "a"}));
  TlsFiles files = Files();
  files.cert = Path("none.crt");
  EXPECT_THAT(Complaint(files), HasSubstr(Path("none.crt")));
  files.cert = folder_.path();
  EXPECT_THAT(Complaint(files), HasSubstr("Is a directory"));
}

TEST_F(TlsSourceTest, FilesOfAnotherKindAreNamed) {
  WriteAll(ca_.Issue({.name = "a"}));
  Write("own.key", "secret, but not a key");
  EXPECT_THAT(Complaint(Files()), HasSubstr(Path("own.key")));
  EXPECT_THAT(Complaint(Files()), Not(HasSubstr("secret")));
  Write("own.crt", "not a certificate");
  EXPECT_THAT(Complaint(Files()), HasSubstr(Path("own.crt")));
  Write("ca.crt", ca_.certificate().substr(0, 100));
  EXPECT_THAT(Complaint(Files()), HasSubstr(Path("ca.crt")));
}

TEST_F(TlsSourceTest, AKeyOfAnotherCertificateIsRefused) {
  WriteAll(ca_.Issue({.name = "a"}));
  Write("own.key", ca_.Issue({.name = "a"}).key);
  EXPECT_THAT(Complaint(Files()), HasSubstr("does not belong to"));
}

TEST_F(TlsSourceTest, ACertificateOutsideItsTimeIsRefused) {
  WriteAll(ca_.Issue({.name = "a", .age = absl::Hours(48), .lifetime = absl::Hours(24)}));
  EXPECT_THAT(Complaint(Files()), HasSubstr("expired"));
  WriteAll(ca_.Issue({.name = "a", .age = -absl::Hours(1)}));
  EXPECT_THAT(Complaint(Files()), HasSubstr("valid from"));
}

TEST_F(TlsSourceTest, ChangedFilesAreReadAgainAndUnchangedOnesAreNot) {
  WriteAll(ca_.Issue({.name = "a"}));
  TlsSource source(TlsSource::Side::kServer, Files(), absl::ZeroDuration());
  const auto first = source.Current();
  EXPECT_EQ(*source.Current(), *first);
  const IssuedCertificate next = ca_.Issue({.name = "longer-name-than-before"});
  WriteAll(next);
  const auto second = source.Current();
  EXPECT_EQ((*second)->cert_chain, next.certificate);
}

TEST_F(TlsSourceTest, AHalfWrittenStateIsPassedOver) {
  WriteAll(ca_.Issue({.name = "a"}));
  TlsSource source(TlsSource::Side::kServer, Files(), absl::ZeroDuration());
  const auto first = source.Current();
  const IssuedCertificate next = ca_.Issue({.name = "b"});
  Write("own.crt", next.certificate.substr(0, 200));
  EXPECT_EQ(*source.Current(), *first);
  Write("own.crt", next.certificate);
  EXPECT_EQ(*source.Current(), *first);
  std::filesystem::remove(Path("own.key"));
  EXPECT_EQ(*source.Current(), *first);
  Write("own.key", next.key);
  EXPECT_EQ((*source.Current())->private_key, next.key);
}

TEST_F(TlsSourceTest, RevocationListsAreOfAFileOrAFolder) {
  const IssuedCertificate own = ca_.Issue({.name = "a"});
  const IssuedCertificate lost = ca_.Issue({.name = "lost"});
  WriteAll(own);
  ASSERT_EQ(mkdir(Path("lists").c_str(), 0700), 0);
  Write("lists/empty.pem", ca_.Revoke({}));
  TlsFiles files = Files();
  files.crl = Path("lists");
  TlsSource source(TlsSource::Side::kServer, files, absl::ZeroDuration());
  EXPECT_TRUE(source.CheckPeer(lost.certificate).ok());
  Write("lists/second.pem", ca_.Revoke({lost.certificate}));
  EXPECT_TRUE(absl::IsUnauthenticated(source.CheckPeer(lost.certificate)));
  EXPECT_TRUE(source.CheckPeer(own.certificate).ok());
  // Behind a certificate that is good.
  EXPECT_TRUE(absl::IsUnauthenticated(source.CheckPeer(own.certificate + lost.certificate)));
  EXPECT_TRUE(absl::IsUnauthenticated(source.CheckPeer("")));
  // A file in place that changes.
  Write("lists/second.pem", ca_.Revoke({own.certificate, lost.certificate}));
  EXPECT_TRUE(absl::IsUnauthenticated(source.CheckPeer(own.certificate)));
}

TEST_F(TlsSourceTest, ClientsMayBeNamed) {
  const IssuedCertificate own = ca_.Issue({.name = "alice"});
  const IssuedCertificate other = ca_.Issue({.name = "alice2"});
  WriteAll(own);
  TlsFiles files = Files();
  files.clients = {"bob", "alice"};
  TlsSource source(TlsSource::Side::kServer, files);
  EXPECT_TRUE(source.CheckPeer(own.certificate).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(source.CheckPeer(other.certificate)));
  // Somebody else's behind it makes no difference.
  EXPECT_TRUE(absl::IsUnauthenticated(source.CheckPeer(other.certificate + own.certificate)));
  EXPECT_TRUE(absl::IsUnauthenticated(source.CheckPeer("")));
  // Names in a list alone do nothing.
  EXPECT_THAT(Complaint({.clients = {"alice"}}), HasSubstr("--tls_key is missing"));
}

TEST_F(TlsSourceTest, RevocationListsOfOthersAndOtherTextsAreRefused) {
  const IssuedCertificate own = ca_.Issue({.name = "a"});
  WriteAll(own);
  TlsFiles files = Files();
  files.crl = Path("list.pem");
  EXPECT_THAT(Complaint(files), HasSubstr("list.pem"));
  Write("list.pem", own.certificate);
  EXPECT_THAT(Complaint(files), HasSubstr("holds no PEM revocation list"));
  // Its name is the root's, its key is not.
  Write("list.pem", TestCa("root").Revoke({own.certificate}));
  EXPECT_THAT(Complaint(files), HasSubstr("not signed by a certificate in --tls_ca"));
}

}  // namespace
}  // namespace warpline
