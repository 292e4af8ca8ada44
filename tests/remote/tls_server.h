// HTTPS for tests: what comes is decrypted and handed to an HttpServer.
#pragma once

#include <openssl/ssl.h>

#include <filesystem>
#include <optional>
#include <string>

#include "tests/remote/http_server.h"

namespace composer::test {

/// Listens on 127.0.0.1 with a certificate that it has signed itself, for the host `name`.
class TlsServer {
 public:
  TlsServer(const HttpServer& behind, const std::string& name);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  /// https://127.0.0.1:PORT
  std::string url() const { return "https://127.0.0.1:" + std::to_string(listener_->port()); }
  /// Writes the certificate as a file of those to trust.
  void write_certificate(const std::filesystem::path& path) const;

 private:
  void serve(int socket) const;

  const int behind_port_;
  SSL_CTX* context_;
  X509* certificate_ = nullptr;
  std::optional<Listener> listener_;
};

}  // namespace composer::test
