#include "base/remote/web_store.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/url_secrets.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/http_server.h"

namespace composer::web_store_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

const Patience kQuick{.tries = 3, .tries_at_first = 2, .first_wait = 0.001, .after_signal = 0.2};
const std::string kContent = "0123456789";

std::string read(WebStore& store, const ObjectInfo& info, uint64_t begin, size_t bytes) {
  std::vector<uint8_t> into(bytes);
  store.read(info, begin, into);
  return {into.begin(), into.end()};
}

template <class F>
std::string problem_of(F&& run) {
  try {
    run();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("files of a web server are described and read by ranges", "[remote]") {
  const HttpServer server([](const ServerRequest& request) -> ServerReply {
    if (request.path != "/data/a%20b" || request.query != "signature=1") return {.status = 404};
    return ranged_reply(request, kContent, "\"v1\"");
  });
  const RemotePath path(server.url() + "/data/a b?signature=1");
  WebStore store(path, kQuick);
  const auto info = store.stat(path.key());
  REQUIRE(info);
  CHECK(info->bytes == 10);
  CHECK(info->etag == "\"v1\"");
  CHECK(read(store, *info, 3, 4) == "3456");
  CHECK_FALSE(store.stat("other"));
  ObjectInfo older = *info;
  older.etag = "\"v0\"";
  CHECK_THROWS_WITH(read(store, older, 3, 4), Contains("has changed") && !Contains("signature"));
}

TEST_CASE("web servers without HEAD, ETag or ranges", "[remote]") {
  bool ranges = true;
  const HttpServer server([&](const ServerRequest& request) -> ServerReply {
    if (request.method == "HEAD") return {.status = 403};
    const std::string content = request.path == "/empty" ? "" : kContent;
    if (!ranges) return {.body = content};
    auto reply = ranged_reply(request, content, "");
    reply.headers.emplace_back("Last-Modified", "Tue, 15 Nov 1994 08:12:31 GMT");
    return reply;
  });
  WebStore store(RemotePath(server.url()), kQuick);
  const auto info = store.stat("file");
  REQUIRE(info);
  CHECK(info->bytes == 10);
  CHECK(info->etag == "Tue, 15 Nov 1994 08:12:31 GMT");
  CHECK(read(store, *info, 9, 1) == "9");
  CHECK(server.requests().back().headers.at("if-unmodified-since") == info->etag);
  CHECK(store.stat("empty")->bytes == 0);

  ranges = false;
  CHECK(store.stat("empty")->bytes == 0);
  const auto whole = store.stat("file");
  CHECK(whole->bytes == 10);
  CHECK(read(store, *whole, 0, 10) == kContent);
  CHECK_THAT(problem_of([&] { read(store, *whole, 0, 4); }),
             Contains(server.url() + "/file: the server cannot answer ranges of bytes"));
}

TEST_CASE("redirections of a web server are followed", "[remote]") {
  const HttpServer target([](const ServerRequest& request) -> ServerReply {
    if (request.headers.contains("authorization")) return {.status = 400};
    return ranged_reply(request, kContent, "\"v1\"");
  });
  const HttpServer server([&](const ServerRequest& request) -> ServerReply {
    if (request.path == "/loop")
      return {.status = 302, .headers = {{"Location", "/loop"}}, .body = "moved"};
    // "me:pass word"
    if (!request.headers.contains("authorization") ||
        request.headers.at("authorization") != "Basic bWU6cGFzcyB3b3Jk")
      return {.status = 401};
    return {.status = 302, .headers = {{"Location", target.url() + "/x"}}, .body = "moved"};
  });
  WebStore store(RemotePath("http://me:pass%20word@" + server.host()), kQuick);
  const auto info = store.stat("file");
  REQUIRE(info);
  CHECK(read(store, *info, 3, 4) == "3456");
  WebStore stranger(RemotePath(server.url()), kQuick);
  CHECK_THAT(problem_of([&] { stranger.stat("file"); }),
             Contains("401") && Contains("needs a user and password"));
  CHECK_THAT(without_secrets(problem_of([&] { stranger.stat("file"); })),
             Contains("user:password@"));  // as it is printed
  CHECK_THROWS_WITH(stranger.stat("loop"), Contains("redirect"));
}

TEST_CASE("web servers are neither listed nor written", "[remote]") {
  WebStore store(RemotePath("https://host.invalid"), kQuick);
  CHECK_THAT(problem_of([&] { store.list("x/"); }),
             Contains("https://host.invalid/x/: ") && Contains("do not list"));
  CHECK_THAT(problem_of([&] { store.list_folder("x/"); }), Contains("do not list"));
  CHECK_THAT(problem_of([&] { store.write("x", std::span<const uint8_t>()); }),
             Contains("read only"));
  CHECK_THAT(problem_of([&] { store.write("x", std::filesystem::path("y")); }),
             Contains("read only"));
  CHECK_THAT(problem_of([&] { store.remove("x"); }), Contains("read only"));
}

TEST_CASE("a store is opened once", "[remote]") {
  AwsEnvironment environment;
  environment.set("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
  const auto first = open_store(RemotePath("s3://bucket/a"));
  CHECK(open_store(RemotePath("s3://bucket/b")) == first);
  CHECK(open_store(RemotePath("s3://other/b")) != first);
  CHECK(open_store(RemotePath("https://bucket/b")) != first);
  environment.set("AWS_ENDPOINT_URL", "http://127.0.0.1:10");
  CHECK(open_store(RemotePath("s3://bucket/a")) != first);
}

TEST_CASE("answers that make no sense name the file", "[remote]") {
  const HttpServer server([](const ServerRequest& request) -> ServerReply {
    if (request.method == "HEAD") return {.status = 403};
    return {.status = 206, .headers = {{"Content-Range", "bytes what"}}, .body = "x"};
  });
  WebStore store(RemotePath(server.url()), kQuick);
  CHECK_THROWS_WITH(store.stat("range"), Contains(server.url() + "/range: Content-Range is"));
}

}  // namespace composer::web_store_test
