// server/tls_credentials.h
//
// gRPC credentials whose certificate can be exchanged while the server runs: each handshake uses
// what was given last, connections that are there go on.

#ifndef SLUICE_SERVER_TLS_CREDENTIALS_H_
#define SLUICE_SERVER_TLS_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "server/tls_identity.h"

namespace sluice {

// Threads: Use from any, while handshakes go on.
class TlsCredentials {
 public:
  // Clients must show a certificate when the first identity has a client_ca; that stays so.
  explicit TlsCredentials(TlsIdentity identity);
  ~TlsCredentials();
  TlsCredentials(const TlsCredentials&) = delete;
  TlsCredentials& operator=(const TlsCredentials&) = delete;

  // For one address. Owns: this object must outlive the server that listens there.
  std::shared_ptr<grpc::ServerCredentials> ForAddress();

  // Requires: a client_ca exactly when the first identity has one.
  void Use(TlsIdentity identity);

 private:
  class Source;
  class Address;
  const std::unique_ptr<Source> source_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_TLS_CREDENTIALS_H_
