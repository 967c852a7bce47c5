// server/tls_identity.h
//
// What the daemon shows when it speaks TLS, read from files and checked as a whole before it is
// used: what passes here makes handshakes work.

#ifndef SLUICE_SERVER_TLS_IDENTITY_H_
#define SLUICE_SERVER_TLS_IDENTITY_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config.h"

namespace sluice {

struct TlsIdentity {
  std::string certificate;               // PEM: the server's, then those that signed it.
  std::string key;                       // PEM.
  std::optional<std::string> client_ca;  // PEM.
  std::string subject;                   // Of the certificate: "CN=edge,O=Example".
  std::string valid_until;               // "2031-01-31 12:00:00 UTC"
  std::vector<std::string> warnings;     // Expired, not valid yet, or expires soon.
};

// Fails: INVALID_ARGUMENT, one error: a file that cannot be read or has nothing of its kind in PEM
//        form, a key that is encrypted, does not belong to the certificate, or that other users may
//        read. Names the key of the configuration and the file.
absl::StatusOr<TlsIdentity> ReadTlsIdentity(const TlsConfig& config);

}  // namespace sluice

#endif  // SLUICE_SERVER_TLS_IDENTITY_H_
