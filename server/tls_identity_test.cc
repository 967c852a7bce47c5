#include "server/tls_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

struct Pair {
  std::string certificate, key;
};

std::string Text(BIO* memory) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory, &text);
  std::string copy(text, static_cast<std::size_t>(size));
  BIO_free(memory);
  return copy;
}

// A certificate that signs itself, valid from `begin` to `end` seconds from now.
Pair MakePair(long begin, long end) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), begin);
  X509_gmtime_adj(X509_getm_notAfter(certificate), end);
  X509_NAME* const name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("edge"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  BIO* const text = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(text, certificate);
  BIO* const key_text = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(key_text, key, nullptr, nullptr, 0, nullptr, nullptr);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return {Text(text), Text(key_text)};
}

constexpr long kHour = 3600, kYear = 365 * 24 * kHour;

class TlsIdentityTest : public testing::Test {
 protected:
  TlsIdentityTest() {
    std::string name = testing::TempDir() + "sluice_tls_" + std::string(6, 'X');
    folder_ = mkdtemp(name.data());
    config_ = {.certificate = folder_ / "c.pem", .key = folder_ / "k.pem", .client_ca = {}};
    Write(MakePair(-kHour, kYear));
  }
  ~TlsIdentityTest() override { fs::remove_all(folder_); }

  void Write(const Pair& pair) {
    std::ofstream(config_.certificate) << pair.certificate;
    std::ofstream(config_.key) << pair.key;
    chmod(config_.key.c_str(), 0600);
  }
  std::string Refusal() const {
    const absl::StatusOr<TlsIdentity> identity = ReadTlsIdentity(config_);
    if (identity.ok()) return "accepted";
    EXPECT_EQ(identity.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(identity.status().message());
  }

  fs::path folder_;
  TlsConfig config_;
};

TEST_F(TlsIdentityTest, TakesACertificateAndItsKey) {
  config_.client_ca = config_.certificate;
  const absl::StatusOr<TlsIdentity> identity = ReadTlsIdentity(config_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->subject, "CN=edge");
  EXPECT_THAT(identity->certificate, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_EQ(identity->client_ca, identity->certificate);
  EXPECT_THAT(identity->valid_until, HasSubstr("UTC"));
  EXPECT_TRUE(identity->warnings.empty());
}

TEST_F(TlsIdentityTest, WarnsOfItsDates) {
  const auto warning_of = [this](long begin, long end) {
    Write(MakePair(begin, end));
    const absl::StatusOr<TlsIdentity> identity = ReadTlsIdentity(config_);
    return identity.ok() && identity->warnings.size() == 1 ? identity->warnings[0] : "none";
  };
  EXPECT_THAT(warning_of(-2 * kHour, -kHour), HasSubstr("expired on"));
  EXPECT_THAT(warning_of(-kHour, kHour), HasSubstr("expires on"));
  EXPECT_THAT(warning_of(kHour, kYear), HasSubstr("is not valid before"));
}

TEST_F(TlsIdentityTest, RefusesWhatWouldFailLater) {
  const Pair pair = MakePair(-kHour, kYear), other = MakePair(-kHour, kYear);
  Write({pair.certificate, other.key});
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("tls.key: "), HasSubstr("got a key of another")));
  Write({"nothing", pair.key});
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("tls.certificate: "), HasSubstr("got no certificate")));
  Write({pair.certificate + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
         pair.key});
  EXPECT_THAT(Refusal(), HasSubstr("got certificate 2 that cannot be read"));
  Write({pair.certificate, pair.certificate});
  EXPECT_THAT(Refusal(), HasSubstr("got no private key that can be read"));
  Write({pair.certificate, std::string(2'000'000, 'x')});
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("tls.key: "), HasSubstr("is too long")));
  Write(pair);
  config_.client_ca = folder_ / "none.pem";
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("tls.client_ca: "), HasSubstr("cannot open")));
}

TEST_F(TlsIdentityTest, RefusesAKeyThatOthersMayRead) {
  for (const mode_t mode : {0644u, 0604u, 0602u}) {
    chmod(config_.key.c_str(), mode);
    EXPECT_THAT(Refusal(), AllOf(HasSubstr("tls.key: "), HasSubstr("got mode 06")));
  }
  chmod(config_.key.c_str(), 0640);  // Groups such as ssl-cert exist for this.
  EXPECT_EQ(Refusal(), "accepted");
}

TEST_F(TlsIdentityTest, DoesNotWaitForANamedPipe) {
  config_.certificate = folder_ / "pipe";
  ASSERT_EQ(mkfifo(config_.certificate.c_str(), 0600), 0);
  EXPECT_THAT(Refusal(), HasSubstr("but a named pipe"));
}

}  // namespace
}  // namespace sluice
