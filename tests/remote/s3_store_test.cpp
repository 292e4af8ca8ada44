#include "base/remote/s3_store.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/process/interrupt.h"
#include "base/remote/leaving.h"
#include "base/remote/remote_path.h"
#include "base/save_progress.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/memory_store.h"
#include "tests/temporary_folder.h"

namespace composer::s3_store_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

const Patience kQuick{.tries = 4, .tries_at_first = 2, .first_wait = 0.001, .after_signal = 0.2};

std::string some_bytes(size_t count) {
  std::string bytes(count, '\0');
  uint32_t state = 1;
  for (char& c : bytes) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return bytes;
}

std::span<const uint8_t> span_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// A bucket of a store in memory, with credentials.
struct Bucket {
  AwsEnvironment environment;
  MemoryStore memory;
  CredentialSource credentials;
  S3Store store;

  explicit Bucket(Patience patience = kQuick, const std::string& region = "us-east-1")
      : store("bucket", {memory.url(), region}, keyed(), patience) {
    log::quiet();
  }

  CredentialSource& keyed() {
    environment.set_keys();
    return credentials;
  }

  std::string read(const std::string& key, uint64_t begin, size_t bytes) {
    const auto info = store.stat(key);
    REQUIRE(info);
    return read(*info, begin, bytes);
  }
  std::string read(const ObjectInfo& info, uint64_t begin, size_t bytes) {
    std::vector<uint8_t> into(bytes);
    store.read(info, begin, into);
    return {into.begin(), into.end()};
  }
  size_t requests(const std::string& method) const {
    size_t count = 0;
    for (const auto& request : const_cast<MemoryStore&>(memory).server().requests())
      count += request.method == method;
    return count;
  }
  /// Answers the first `times` requests of a method instead of the store.
  void answer(const std::string& method, int times, const ServerReply& reply) {
    auto left = std::make_shared<std::atomic<int>>(times);
    memory.set_interference([=](const ServerRequest& request) -> std::optional<ServerReply> {
      if (request.method != method || left->fetch_sub(1) <= 0) return std::nullopt;
      return reply;
    });
  }
};

template <class Error, class F>
std::string message_of(F&& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing of this kind was thrown";
}

}  // namespace

TEST_CASE("objects are described and read by ranges, over one connection", "[remote]") {
  Bucket bucket;
  const std::string content = some_bytes(100'000);
  bucket.memory.put("a b/\u00fc+%.bin", content);
  const auto info = bucket.store.stat("a b/\u00fc+%.bin");
  REQUIRE(info);
  CHECK(info->bytes == content.size());
  CHECK(info->etag.size() == 34);
  CHECK(bucket.read(*info, 0, content.size()) == content);
  CHECK(bucket.read(*info, 777, 1000) == content.substr(777, 1000));
  CHECK(bucket.read(*info, content.size() - 1, 1) == content.substr(content.size() - 1));
  CHECK_FALSE(bucket.store.stat("other"));
  CHECK_THROWS_AS(bucket.read(*info, content.size(), 1), RunError);
  for (const auto& request : bucket.memory.server().requests()) {
    CHECK(request.connection == bucket.memory.server().requests()[0].connection);
    CHECK_THAT(request.headers.at("authorization"),
               Contains("AKIDEXAMPLE/") && Contains("/us-east-1/s3/aws4_request"));
  }
}

TEST_CASE("what may pass is tried again on a new connection", "[remote]") {
  Bucket bucket;
  bucket.memory.put("x", "0123456789");
  const auto info = bucket.store.stat("x");
  ServerReply reply;
  SECTION("503") { reply = error_reply(503, "SlowDown", "Please reduce your request rate."); }
  SECTION("500") { reply = {.status = 500}; }
  SECTION("429") { reply = {.status = 429}; }
  SECTION("a body that is cut") {
    reply = {.status = 206,
             .headers = {{"Content-Range", "bytes 2-5/10"}, {"ETag", info->etag}},
             .body = "2345",
             .cut_after = 2};
  }
  SECTION("a body that is too short") {
    reply = {.status = 206, .headers = {{"Content-Range", "bytes 2-5/10"}}, .body = "23"};
  }
  SECTION("a body that is too long") {
    reply = {.status = 206, .headers = {{"Content-Range", "bytes 2-5/10"}}, .body = "234567"};
  }
  SECTION("no answer") { reply.no_answer = true; }
  SECTION("RequestTimeout") {
    reply = error_reply(400, "RequestTimeout", "Your socket connection was not read from.");
  }
  bucket.answer("GET", 2, reply);
  CHECK(bucket.read(*info, 2, 4) == "2345");
  CHECK(bucket.requests("GET") >= 3);
  const auto requests = bucket.memory.server().requests();
  CHECK(requests.back().connection != requests[requests.size() - 2].connection);
}

TEST_CASE("a store that asks to wait is waited for", "[remote]") {
  Bucket bucket;
  bucket.memory.put("x", "0123456789");
  bucket.answer("HEAD", 1, {.status = 503, .headers = {{"Retry-After", "1"}}});
  const auto begin = std::chrono::steady_clock::now();
  CHECK(bucket.store.stat("x"));
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::seconds(1));
}

TEST_CASE("a store that goes on failing ends the read with its own words", "[remote]") {
  Bucket bucket;
  bucket.memory.put("x", "0123456789");
  const auto info = bucket.store.stat("x");
  bucket.answer("GET", 100, error_reply(503, "SlowDown", "Please reduce your request rate."));
  CHECK_THAT(
      message_of<RunError>([&] { bucket.read(*info, 0, 4); }),
      Contains("s3://bucket/x") && Contains("503 SlowDown: Please reduce") && Contains("4 tries"));
  CHECK(bucket.requests("GET") == 4);
  bucket.answer("GET", 100, {.no_answer = true});
  CHECK_THAT(message_of<RunError>([&] { bucket.read(*info, 0, 4); }),
             Contains("s3://bucket/x: no whole answer came in 4 tries"));
}

TEST_CASE("what the user has to mend is told at once", "[remote]") {
  Bucket bucket;
  bucket.memory.put("x", "0123456789");
  const auto stat = [&] { bucket.store.stat("x"); };
  const auto said = [&](const ServerReply& reply) {
    bucket.memory.set_interference(
        [=](const ServerRequest&) -> std::optional<ServerReply> { return reply; });
    const std::string message = message_of<UserError>(stat);
    // HEAD, whose answer has no body, then once GET.
    CHECK(bucket.requests("HEAD") + bucket.requests("GET") <= 12);
    CHECK_THAT(message, Contains("s3://bucket/x: ") && !Contains("\n") &&
                            !Contains("secret-of-the-test") && !Contains("AKIDEXAMPLE"));
    return message;
  };
  CHECK_THAT(said(error_reply(403, "SignatureDoesNotMatch", "The signature is another.")),
             Contains("403 SignatureDoesNotMatch: The signature is another.") &&
                 Contains("the environment (AWS_ACCESS_KEY_ID)"));
  CHECK_THAT(said(error_reply(400, "ExpiredToken", "The provided token has expired.")),
             Contains("ExpiredToken"));
  CHECK_THAT(said(error_reply(404, "NoSuchBucket", "The specified bucket does not exist")),
             Contains("there is no bucket 'bucket'"));
  CHECK_THAT(said({.status = 301, .headers = {{"x-amz-bucket-region", "eu-west-3"}}}),
             Contains("not in region us-east-1 but in eu-west-3; set AWS_REGION"));
  CHECK_THAT(said(error_reply(400, "AuthorizationHeaderMalformed", "The region is wrong",
                              "<Region>eu-west-3</Region>")),
             Contains("but in eu-west-3"));
  CHECK(bucket.requests("HEAD") == 5);
  CHECK(bucket.requests("GET") == 5);

  bucket.memory.set_interference(nullptr);
  const auto info = bucket.store.stat("x");
  bucket.memory.remove("x");
  CHECK_THAT(message_of<UserError>([&] { bucket.read(*info, 0, 1); }),
             Contains("no such object (404 NoSuchKey"));
}

TEST_CASE("without credentials requests are not signed, and a refusal says so", "[remote]") {
  AwsEnvironment environment;
  MemoryStore memory;
  CredentialSource credentials;
  S3Store store("bucket", {memory.url(), ""}, credentials, kQuick);
  memory.put("x", "0123456789");
  CHECK(store.stat("x"));
  CHECK_FALSE(memory.server().requests()[0].headers.contains("authorization"));
  memory.set_interference([](const ServerRequest&) -> std::optional<ServerReply> {
    return error_reply(403, "AccessDenied", "Access Denied");
  });
  CHECK_THAT(message_of<UserError>([&] { store.stat("x"); }),
             Contains("no credentials were found: set AWS_ACCESS_KEY_ID"));
}

TEST_CASE("a bucket whose region nobody named tells it", "[remote]") {
  Bucket bucket(kQuick, "");
  bucket.memory.put("x", "0123456789");
  bucket.memory.set_interference([](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.headers.at("authorization").find("/eu-west-3/") != std::string::npos)
      return std::nullopt;
    return ServerReply{.status = 400, .headers = {{"x-amz-bucket-region", "eu-west-3"}}};
  });
  CHECK(bucket.store.stat("x"));
  CHECK(bucket.requests("HEAD") == 2);
}

TEST_CASE("a clock that goes wrong is corrected by the store's", "[remote]") {
  Bucket bucket;
  bucket.memory.put("x", "0123456789");
  const auto info = bucket.store.stat("x");
  bucket.memory.set_interference([](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.headers.at("x-amz-date").starts_with("20330518T")) return std::nullopt;
    auto reply = error_reply(403, "RequestTimeTooSkewed", "The difference is too large.");
    reply.headers.emplace_back("Date", "Wed, 18 May 2033 03:33:20 GMT");
    return reply;
  });
  CHECK(bucket.read(*info, 0, 4) == "0123");
}

TEST_CASE("an object that changed is noticed", "[remote]") {
  Bucket bucket;
  bucket.memory.put("x", "0123456789");
  const auto info = bucket.store.stat("x");
  const auto read = [&] { bucket.read(*info, 0, 4); };
  SECTION("by the store") { bucket.memory.put("x", "9876543210"); }
  SECTION("by its ETag") {
    bucket.answer("GET", 1,
                  {.status = 206,
                   .headers = {{"Content-Range", "bytes 0-3/10"}, {"ETag", "\"other\""}},
                   .body = "9876"});
  }
  SECTION("by its length") {
    bucket.answer("GET", 1,
                  {.status = 206, .headers = {{"Content-Range", "bytes 0-3/11"}}, .body = "9876"});
  }
  SECTION("by where it ends") { bucket.answer("GET", 1, {.status = 416}); }
  CHECK_THAT(message_of<RunError>(read),
             Contains("s3://bucket/x: it has changed since it was opened"));
}

TEST_CASE("other bytes than those asked for are refused", "[remote]") {
  Bucket bucket;
  bucket.memory.put("x", "0123456789");
  const auto info = bucket.store.stat("x");
  bucket.answer("GET", 1,
                {.status = 206, .headers = {{"Content-Range", "bytes 1-4/10"}}, .body = "1234"});
  CHECK_THAT(message_of<RunError>([&] { bucket.read(*info, 0, 4); }), Contains("other bytes"));
  bucket.answer("GET", 1, {.status = 200, .body = "0123456789"});
  CHECK_THAT(message_of<UserError>([&] { bucket.read(*info, 0, 4); }),
             Contains("cannot answer ranges"));
  bucket.answer("GET", 1, {.status = 200, .body = "0123456789"});
  CHECK(bucket.read(*info, 0, 10) == "0123456789");
}

TEST_CASE("a read that takes much longer than others is sent once more", "[remote]") {
  Bucket bucket;
  bucket.memory.put("x", some_bytes(1000));
  const auto info = bucket.store.stat("x");
  constexpr int kFast = 30;
  for (int i = 0; i < kFast; ++i) bucket.read(*info, 0, 100);
  const size_t before = bucket.memory.server().requests().size();
  std::mutex mutex;
  std::condition_variable released;
  bool release = false;
  const auto number = static_cast<int>(before);
  bucket.memory.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
    std::unique_lock lock(mutex);
    if (request.number == number) released.wait(lock, [&] { return release; });
    return std::nullopt;
  });
  CHECK(bucket.read(*info, 5, 100) == some_bytes(1000).substr(5, 100));
  const auto requests = bucket.memory.server().requests();
  REQUIRE(requests.size() == before + 2);
  CHECK(requests[before].connection != requests[before + 1].connection);
  CHECK(requests[before].headers.at("range") == requests[before + 1].headers.at("range"));
  {
    const std::lock_guard lock(mutex);
    release = true;
  }
  released.notify_all();
}

TEST_CASE("listings take all pages", "[remote]") {
  Bucket bucket;
  bucket.memory.page_keys = 3;
  std::vector<std::string> keys;
  for (int i = 0; i < 10; ++i) {
    keys.push_back("data/a b&+" + std::to_string(i));
    bucket.memory.put(keys.back(), std::string(static_cast<size_t>(i), 'x'));
  }
  bucket.memory.put("data/", "");
  bucket.memory.put("data/deep/1", "");
  bucket.memory.put("data/deep/2", "");
  bucket.memory.put("other", "");
  const auto objects = bucket.store.list("data/a");
  REQUIRE(objects.size() == 10);
  for (size_t i = 0; i < 10; ++i) {
    CHECK(objects[i].key == keys[i]);
    CHECK(objects[i].bytes == i);
    CHECK(objects[i].etag == bucket.store.stat(keys[i])->etag);
  }
  auto expected = keys;
  expected.push_back("data/deep/");
  CHECK(bucket.store.list_folder("data/") == expected);
  CHECK(bucket.store.list_folder("") == std::vector<std::string>{"data/", "other"});
  CHECK(bucket.store.list("nothing").empty());
}

TEST_CASE("a listing that goes nowhere ends with an error", "[remote]") {
  Bucket bucket;
  bucket.answer("GET", 100,
                {.body = "<ListBucketResult><IsTruncated>true</IsTruncated>"
                         "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>"});
  CHECK_THAT(message_of<RunError>([&] { bucket.store.list("x"); }), Contains("does not advance"));
  bucket.answer("GET", 100, {.body = "<html>"});
  CHECK_THAT(message_of<RunError>([&] { bucket.store.list("x"); }),
             Contains("s3://bucket/x: the store's XML is damaged"));
}

TEST_CASE("objects are written whole, and removed", "[remote]") {
  Bucket bucket;
  const std::string content = some_bytes(5000);
  bucket.store.write("x", span_of(content));
  CHECK(bucket.memory.get("x") == content);
  bucket.store.write("empty", span_of(""));
  CHECK(bucket.memory.get("empty") == "");
  const TemporaryFolder folder;
  bucket.answer("PUT", 2, {.status = 503});
  bucket.store.write("file", folder.write("file", content));
  CHECK(bucket.memory.get("file") == content);
  bucket.store.remove("file");
  bucket.store.remove("file");
  CHECK_FALSE(bucket.memory.get("file"));
  CHECK_THAT(message_of<RunError>([&] { bucket.store.write("x", folder / "none"); }),
             Contains("none: cannot be read"));
  bucket.answer("PUT", 1, error_reply(403, "AccessDenied", "Access Denied"));
  CHECK_THAT(message_of<UserError>([&] { bucket.store.write("x", span_of(content)); }),
             Contains("s3://bucket/x: the store refuses PUT (403 AccessDenied: Access Denied)"));
}

TEST_CASE("large objects are written in parts", "[remote]") {
  Bucket bucket;
  const std::string content = some_bytes((33 << 20) + 12345);
  const TemporaryFolder folder;
  const auto file = folder.write("large", content);
  const int64_t saved_before = saved_bytes;
  SECTION("from a file, with parts that fail at first") {
    std::atomic<int> failures = 3;
    bucket.memory.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
      if (!request.has_parameter("partNumber") || failures.fetch_sub(1) <= 0) return std::nullopt;
      return ServerReply{.status = 503};
    });
    bucket.store.write("large", file);
  }
  SECTION("from memory, with a completion that fails behind status 200") {
    bucket.answer("POST", 0, {});
    std::atomic<int> failures = 1;
    bucket.memory.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
      const bool completes = request.method == "POST" && request.has_parameter("uploadId");
      if (!completes || failures.fetch_sub(1) <= 0) return std::nullopt;
      return error_reply(200, "InternalError", "We encountered an internal error.");
    });
    bucket.store.write("large", span_of(content));
  }
  CHECK((bucket.memory.get("large") == content));
  CHECK(bucket.memory.open_uploads() == 0);
  CHECK(saved_bytes - saved_before >= std::ssize(content));
}

TEST_CASE("an upload whose completion's answer is lost counts as done", "[remote]") {
  Bucket bucket;
  const std::string content = some_bytes((32 << 20) + 1);
  std::atomic<bool> lost = false;
  bucket.memory.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.method != "POST" || !request.has_parameter("uploadId")) return std::nullopt;
    if (lost.exchange(true))
      return error_reply(404, "NoSuchUpload", "The specified upload does not exist");
    bucket.memory.put("large", content);
    return ServerReply{.no_answer = true};
  });
  bucket.store.write("large", span_of(content));
  CHECK((bucket.memory.get("large") == content));
}

TEST_CASE("an upload that fails leaves neither an object nor parts", "[remote]") {
  Bucket bucket;
  bucket.memory.set_interference([](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.parameter("partNumber") != "2") return std::nullopt;
    return error_reply(403, "AccessDenied", "Access Denied");
  });
  const std::string content = some_bytes((33 << 20) + 12345);
  CHECK_THAT(message_of<UserError>([&] { bucket.store.write("large", span_of(content)); }),
             Contains("AccessDenied"));
  CHECK_FALSE(bucket.memory.get("large"));
  CHECK(bucket.memory.open_uploads() == 0);
}

TEST_CASE("servers that are not there are named", "[remote]") {
  AwsEnvironment environment;
  CredentialSource credentials;
  std::string gone;
  {
    const HttpServer server([](const ServerRequest&) { return ServerReply{}; });
    gone = server.url();
  }
  S3Store refused("bucket", {gone, ""}, credentials, kQuick);
  CHECK_THAT(message_of<UserError>([&] { refused.stat("x"); }),
             Contains("s3://bucket/x: no server answers"));
  const auto host = std::string(64, 'x') + ".invalid";  // too long for a name server to be asked
  S3Store unknown("bucket", {"http://" + host, ""}, credentials, kQuick);
  CHECK_THAT(message_of<UserError>([&] { unknown.stat("x"); }),
             Contains("there is no such host") && Contains(host));
}

namespace {

/// A store that answers 503, or nothing until this ends.
class Failing {
 public:
  Failing(MemoryStore& store, bool silent) {
    store.set_interference(
        [state = state_, silent](const ServerRequest&) -> std::optional<ServerReply> {
          std::unique_lock lock(state->mutex);
          if (silent) state->changed.wait(lock, [&] { return state->released; });
          return ServerReply{.status = 503};
        });
  }
  ~Failing() {
    const std::lock_guard lock(state_->mutex);
    state_->released = true;
    state_->changed.notify_all();
  }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool released = false;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace

TEST_CASE("Ctrl-C ends waiting for a store", "[remote]") {
  Bucket bucket({.tries = 1000, .first_wait = 60, .longest_wait = 60, .after_signal = 0.2});
  bucket.memory.put("x", "0123456789");
  const auto info = bucket.store.stat("x");
  const bool silent = GENERATE(false, true);
  const Failing failing(bucket.memory, silent);
  const InterruptGuard guard;
  std::jthread user([&] {
    bucket.memory.server().wait_for_requests(2);
    ::raise(SIGINT);
  });
  CHECK_THAT(message_of<RunError>([&] { bucket.read(*info, 0, 4); }),
             Contains(silent ? "interrupted" : "503"));
}

TEST_CASE("many threads read through one store", "[remote]") {
  const InterruptGuard no_signal_yet;
  Bucket bucket;
  const std::string content = some_bytes(200'000);
  bucket.memory.put("x", content);
  const auto info = bucket.store.stat("x");
  std::atomic<int> number = 0, wrong = 0;
  std::mutex lock;
  std::string problem;
  bucket.memory.set_interference([&](const ServerRequest&) -> std::optional<ServerReply> {
    if (++number % 7 != 0) return std::nullopt;
    return ServerReply{.status = 503};
  });
  {
    std::vector<std::jthread> readers;
    for (size_t reader = 0; reader < 8; ++reader)
      readers.emplace_back([&, reader] {
        for (size_t i = 0; i < 20; ++i) {
          const size_t begin = (reader * 20 + i) * 1000;
          std::vector<uint8_t> into(1000);
          try {
            bucket.store.read(*info, begin, into);
          } catch (const std::exception& error) {
            const std::lock_guard guard(lock);
            problem = error.what();
            ++wrong;
          }
          wrong += std::string(into.begin(), into.end()) != content.substr(begin, 1000);
        }
      });
  }
  CAPTURE(problem);
  CHECK(wrong == 0);
}

TEST_CASE("where buckets are", "[remote]") {
  AwsEnvironment environment;
  CHECK(s3_endpoint() == S3Endpoint{"", ""});
  environment.set("AWS_DEFAULT_REGION", "eu-west-1");
  environment.set("AWS_ENDPOINT_URL", "https://store.example.org:9000/");
  CHECK(s3_endpoint() == S3Endpoint{"https://store.example.org:9000", "eu-west-1"});
  environment.set("AWS_REGION", "eu-west-2");
  environment.set("AWS_ENDPOINT_URL_S3", "https://s3.example.org");
  CHECK(s3_endpoint() == S3Endpoint{"https://s3.example.org", "eu-west-2"});
  CHECK(s3_endpoint({.endpoint_url = "http://127.0.0.1:1", .region = "eu-west-3"}) ==
        S3Endpoint{"http://127.0.0.1:1", "eu-west-3"});
  CHECK_THAT(message_of<UserError>([] { s3_endpoint({.endpoint_url = "store.example.org"}); }),
             Contains("remote.endpoint_url: https://host[:port] is right"));
  CHECK_THAT(message_of<UserError>([] { s3_endpoint({.region = "Frankfurt am Main"}); }),
             Contains("one is us-east-1"));
}

TEST_CASE("a request that nobody waits for any more is left", "[remote]") {
  const InterruptGuard no_signal_yet;
  Bucket bucket({.tries = 1000, .first_wait = 60, .longest_wait = 60});
  bucket.memory.put("x", "0123456789");
  const auto info = bucket.store.stat("x");
  const bool silent = GENERATE(false, true);
  const Failing failing(bucket.memory, silent);
  std::atomic<bool> leaving = false;
  const LeaveWhen here(leaving);
  std::jthread owner([&] {
    bucket.memory.server().wait_for_requests(2);
    leaving = true;
  });
  CHECK_THAT(message_of<RunError>([&] { bucket.read(*info, 0, 4); }),
             Contains("nobody waits for it any more"));
}

}  // namespace composer::s3_store_test
