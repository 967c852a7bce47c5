#include "server/tls_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"

namespace sluice {

// The identity of the day, and what each address asks it from.
class TlsCredentials::Source {
 public:
  // gRPC keeps one of these for each address, and asks it before every handshake.
  struct Asker {
    Source& source;
    std::uint64_t seen = 0;  // The generation that this address has; gRPC asks one at a time.
  };

  explicit Source(TlsIdentity identity)
      : wants_client_(identity.client_ca.has_value()), identity_(std::move(identity)) {}

  bool wants_client() const { return wants_client_; }

  void Use(TlsIdentity identity) {
    SLUICE_CHECK(identity.client_ca.has_value() == wants_client_);
    MutexLock lock(mutex_);
    identity_ = std::move(identity);
    ++generation_;
  }

  Asker* NewAsker() {
    MutexLock lock(mutex_);
    return askers_.emplace_back(std::make_unique<Asker>(Asker{*this})).get();
  }

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* user_data, grpc_ssl_server_certificate_config** config) {
    Asker& asker = *static_cast<Asker*>(user_data);
    return asker.source.FetchFor(asker, config);
  }

 private:
  grpc_ssl_certificate_config_reload_status FetchFor(Asker& asker,
                                                     grpc_ssl_server_certificate_config** config) {
    MutexLock lock(mutex_);
    if (asker.seen == generation_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {identity_.key.c_str(), identity_.certificate.c_str()};
    // gRPC 1.51 insists on authorities when it fetches, also where it will ask no client for a
    // certificate; then it never looks at them.
    const std::string authorities = identity_.client_ca.value_or(identity_.certificate);
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
    asker.seen = generation_;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const bool wants_client_;
  Mutex mutex_;
  TlsIdentity identity_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<std::unique_ptr<Asker>> askers_ ABSL_GUARDED_BY(mutex_);
};

// The C++ library offers no certificate that can be exchanged at will, so the C library's
// credentials are given to the server by hand.
class TlsCredentials::Address final : public grpc::ServerCredentials {
 public:
  explicit Address(Source& source)
      : credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                source.wants_client() ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                      : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
                &Source::Fetch, source.NewAsker()))) {}
  ~Address() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {
    SLUICE_CHECK(false);  // Nobody here has one.
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

TlsCredentials::TlsCredentials(TlsIdentity identity)
    : source_(std::make_unique<Source>(std::move(identity))) {}
TlsCredentials::~TlsCredentials() = default;

std::shared_ptr<grpc::ServerCredentials> TlsCredentials::ForAddress() {
  return std::make_shared<Address>(*source_);
}

void TlsCredentials::Use(TlsIdentity identity) { source_->Use(std::move(identity)); }

}  // namespace sluice
