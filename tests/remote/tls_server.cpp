#include "tests/remote/tls_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

#include "base/process/signals.h"

namespace composer::test {
namespace {

sockaddr_in on_this_machine(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

void add_extension(X509* certificate, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  if (extension == nullptr) throw std::runtime_error("no certificate for a test's server");
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* self_signed(EVP_PKEY* key, const std::string& name) {
  constexpr long kDay = 24 * 60 * 60;
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate), kDay);
  X509_set_pubkey(certificate, key);
  X509_NAME* const subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(certificate, subject);
  add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(certificate, NID_subject_alt_name, name.c_str());
  X509_sign(certificate, key, EVP_sha256());
  return certificate;
}

}  // namespace

TlsServer::TlsServer(const HttpServer& behind, const std::string& name)
    : behind_port_(behind.port()), context_(SSL_CTX_new(TLS_server_method())) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  certificate_ = self_signed(key, name);
  const bool good = SSL_CTX_use_certificate(context_, certificate_) == 1 &&
                    SSL_CTX_use_PrivateKey(context_, key) == 1;
  EVP_PKEY_free(key);
  if (!good) throw std::runtime_error("no TLS for a test's server");
  listener_.emplace([this](int socket, int) { serve(socket); });
}

TlsServer::~TlsServer() {
  listener_.reset();
  X509_free(certificate_);
  SSL_CTX_free(context_);
}

void TlsServer::write_certificate(const std::filesystem::path& path) const {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr || PEM_write_X509(file, certificate_) != 1 || std::fclose(file) != 0)
    throw std::runtime_error("no certificate's file for a test");
}

void TlsServer::serve(int socket) const {
  const NoBrokenPipe guard;
  SSL* const tls = SSL_new(context_);
  SSL_set_fd(tls, socket);
  const int plain = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = on_this_machine(behind_port_);
  char block[16384];
  bool good = SSL_accept(tls) == 1 &&
              ::connect(plain, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  while (good) {
    pollfd ends[]{{socket, POLLIN, 0}, {plain, POLLIN, 0}};
    if (SSL_pending(tls) == 0 && ::poll(ends, 2, -1) < 0) break;
    if (SSL_pending(tls) > 0 || ends[0].revents != 0) {
      const int got = SSL_read(tls, block, sizeof block);
      good = got > 0 && ::send(plain, block, static_cast<size_t>(got), MSG_NOSIGNAL) == got;
    } else {
      const auto got = ::recv(plain, block, sizeof block, 0);
      good = got > 0 && SSL_write(tls, block, static_cast<int>(got)) == got;
    }
  }
  ::close(plain);
  SSL_free(tls);
}

}  // namespace composer::test
