#include "server/tls_identity.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <cstddef>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/bytes.h"
#include "base/regular_file.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

// A bundle of all public authorities has some 220 KiB.
constexpr Bytes kMaxFile = 1_MiB;
constexpr std::time_t kSoon = std::time_t{14} * 24 * 3600;

template <auto free_function>
struct FreeBy {
  template <typename Object>
  void operator()(Object* object) const {
    free_function(object);
  }
};
using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using Memory = std::unique_ptr<BIO, FreeBy<BIO_free_all>>;

struct PemFile {
  std::string_view key;  // "tls.key"
  const std::filesystem::path& path;
};

absl::Status Wrong(const PemFile& file, std::string_view found, std::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: %s: got %s, want %s", file.key, file.path.native(), found, wanted));
}

// What OpenSSL said last; forgets it.
std::string OpenSslText() {
  const unsigned long code = ERR_peek_last_error();
  const char* const text = code == 0 ? nullptr : ERR_reason_error_string(code);
  std::string reason = text == nullptr ? "unknown reason" : text;
  ERR_clear_error();
  return reason;
}

absl::StatusOr<std::string> ReadPem(const PemFile& file) {
  absl::StatusOr<std::string> text = ReadSmallFile(file.path, kMaxFile);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: %s", file.key, std::string(text.status().message())));
}

Memory InMemory(const std::string& text) {
  return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// The first certificate of a file all of whose certificates can be read.
absl::StatusOr<Certificate> FirstCertificate(const PemFile& file, const std::string& text) {
  const Memory memory = InMemory(text);
  Certificate first;
  for (std::size_t count = 0;; ++count) {
    Certificate next(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) {
      const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
      if (!at_end) {
        return Wrong(
            file,
            absl::StrFormat("certificate %d that cannot be read (%s)", count + 1, OpenSslText()),
            "certificates in PEM form");
      }
      ERR_clear_error();
      if (first == nullptr) return Wrong(file, "no certificate", "a certificate in PEM form");
      return first;
    }
    if (first == nullptr) first = std::move(next);
  }
}

int NoPassword(char* /*into*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::Status CheckKeyMode(const PemFile& file) {
  struct stat info {};
  if (::stat(file.path.c_str(), &info) != 0 || (info.st_mode & S_IRWXO) == 0) {
    return absl::OkStatus();
  }
  return Wrong(file, absl::StrFormat("mode %04o", info.st_mode & 07777u),
               "a file that other users cannot read (chmod o= FILE)");
}

absl::StatusOr<Key> ReadKey(const PemFile& file, const std::string& text) {
  const Memory memory = InMemory(text);
  bool encrypted = false;
  Key key(PEM_read_bio_PrivateKey(memory.get(), nullptr, &NoPassword, &encrypted));
  if (key != nullptr) return key;
  if (encrypted) {
    ERR_clear_error();
    return Wrong(file, "an encrypted key", "a key without a passphrase");
  }
  return Wrong(file, absl::StrFormat("no private key that can be read (%s)", OpenSslText()),
               "a private key in PEM form");
}

std::string SubjectOf(const X509& certificate) {
  const Memory memory(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(memory.get(), X509_get_subject_name(&certificate), 0, XN_FLAG_RFC2253);
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &text);
  return size <= 0 ? "(no subject)" : std::string(text, static_cast<std::size_t>(size));
}

std::string TimeText(const ASN1_TIME& time) {
  std::tm parts{};
  char text[64] = "";
  if (ASN1_TIME_to_tm(&time, &parts) == 1) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  }
  return text;
}

void NoteValidity(const PemFile& file, const X509& certificate, TlsIdentity& identity) {
  std::time_t soon = std::time(nullptr) + kSoon;
  const ASN1_TIME& begin = *X509_get0_notBefore(&certificate);
  const ASN1_TIME& end = *X509_get0_notAfter(&certificate);
  identity.valid_until = TimeText(end);
  const auto warn = [&](std::string_view what, const ASN1_TIME& when) {
    identity.warnings.push_back(absl::StrFormat("%s: %s: the certificate of %s %s %s", file.key,
                                                file.path.native(), identity.subject, what,
                                                TimeText(when)));
  };
  if (X509_cmp_current_time(&begin) > 0) warn("is not valid before", begin);
  if (X509_cmp_current_time(&end) < 0) {
    warn("expired on", end);
  } else if (X509_cmp_time(&end, &soon) < 0) {
    warn("expires on", end);
  }
}

}  // namespace

absl::StatusOr<TlsIdentity> ReadTlsIdentity(const TlsConfig& config) {
  const PemFile certificate_file{"tls.certificate", config.certificate};
  const PemFile key_file{"tls.key", config.key};
  TlsIdentity identity;
  SLUICE_ASSIGN_OR_RETURN(identity.certificate, ReadPem(certificate_file));
  SLUICE_ASSIGN_OR_RETURN(identity.key, ReadPem(key_file));
  SLUICE_ASSIGN_OR_RETURN(const Certificate certificate,
                          FirstCertificate(certificate_file, identity.certificate));
  SLUICE_ASSIGN_OR_RETURN(const Key key, ReadKey(key_file, identity.key));
  SLUICE_RETURN_IF_ERROR(CheckKeyMode(key_file));
  identity.subject = SubjectOf(*certificate);
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return Wrong(
        key_file, "a key of another certificate",
        absl::StrFormat("the key of %s (%s)", config.certificate.native(), identity.subject));
  }
  NoteValidity(certificate_file, *certificate, identity);
  if (config.client_ca) {
    const PemFile file{"tls.client_ca", *config.client_ca};
    SLUICE_ASSIGN_OR_RETURN(identity.client_ca, ReadPem(file));
    SLUICE_RETURN_IF_ERROR(FirstCertificate(file, *identity.client_ca).status());
  }
  return identity;
}

}  // namespace sluice
