// Servers whose certificates are to be trusted, and others.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/remote/web_store.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/tls_server.h"
#include "tests/temporary_folder.h"

namespace composer::tls_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

const Patience kQuick{.tries = 3, .tries_at_first = 2, .first_wait = 0.001, .after_signal = 0.2};

std::string problem_of(const std::string& url) {
  WebStore store(RemotePath(url), kQuick);
  try {
    store.stat("file");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("only servers with a trusted certificate are read", "[remote]") {
  AwsEnvironment environment;
  const TemporaryFolder folder;
  const HttpServer server(
      [](const ServerRequest& request) { return ranged_reply(request, "0123456789", "\"v1\""); });
  const TlsServer tls(server, "IP:127.0.0.1"), other(server, "DNS:other.example.org");
  const std::string file = folder / "certificate.pem", of_other = folder / "other.pem";
  tls.write_certificate(file);
  other.write_certificate(of_other);

  CHECK_THAT(
      problem_of(tls.url()),
      Contains(tls.url() + "/file: the server is not to be trusted") && Contains("AWS_CA_BUNDLE"));
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    CAPTURE(name);
    environment.set(name, file);
    WebStore store(RemotePath(tls.url()), kQuick);
    const auto info = store.stat("file");
    REQUIRE(info);
    std::vector<uint8_t> into(4);
    store.read(*info, 3, into);
    CHECK(std::string(into.begin(), into.end()) == "3456");
    environment.set(name, of_other);
    CHECK_THAT(problem_of(tls.url()), Contains("not to be trusted") && Contains(of_other));
    // Trusted, and another host's.
    CHECK_THAT(problem_of(other.url()), Contains("not to be trusted"));
    environment.set(name, folder / "none.pem");
    CHECK_THAT(problem_of(tls.url()), Contains("not to be trusted") && Contains("none.pem"));
    environment.set(name, "");
  }
  for (const auto& request : server.requests())
    CHECK(request.path == "/file");  // none of those that were refused came through
}

}  // namespace composer::tls_test
