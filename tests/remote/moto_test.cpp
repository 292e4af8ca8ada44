// Against moto, which speaks S3's language and checks signatures. COMPOSER_MOTO_PYTHON names a
// Python that has moto[server] and boto3.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/remote/s3_store.h"
#include "tests/remote/aws_environment.h"
#include "tests/temporary_folder.h"

namespace composer::moto_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

/// Makes a user whose requests are checked from then on, and prints URL, key id and secret.
constexpr const char* kServer = R"(
import json, sys
import boto3
from moto import settings
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
url = f"http://127.0.0.1:{port}"
def client(name):
    return boto3.client(name, endpoint_url=url, region_name="us-east-1",
                        aws_access_key_id="a", aws_secret_access_key="b")
iam = client("iam")
iam.create_user(UserName="user")
policy = {"Version": "2012-10-17",
          "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.put_user_policy(UserName="user", PolicyName="all", PolicyDocument=json.dumps(policy))
key = iam.create_access_key(UserName="user")["AccessKey"]
client("s3").create_bucket(Bucket="bucket")
settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
print(url, key["AccessKeyId"], key["SecretAccessKey"], flush=True)
sys.stdin.read()
)";

class Moto {
 public:
  Moto(const std::string& python, const TemporaryFolder& folder) {
    const auto script = folder.write("server.py", kServer).string();
    const auto output = (folder / "output").string(), errors = (folder / "errors").string();
    int input[2];
    REQUIRE(::pipe(input) == 0);
    id_ = ::fork();
    if (id_ == 0) {
      ::dup2(input[0], STDIN_FILENO);
      ::close(input[1]);
      if (std::freopen(output.c_str(), "w", stdout) == nullptr ||
          std::freopen(errors.c_str(), "w", stderr) == nullptr)
        ::_exit(126);
      ::setenv("INITIAL_NO_AUTH_ACTION_COUNT", "1000000", 1);
      ::execl(python.c_str(), python.c_str(), script.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(input[0]);
    end_ = input[1];
    for (int i = 0; i < 600 && secret.empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      std::ifstream(output) >> url >> key_id >> secret;
      if (::waitpid(id_, nullptr, WNOHANG) != 0) break;
    }
    std::ifstream text(errors);
    INFO(std::string(std::istreambuf_iterator<char>(text), {}));
    REQUIRE_FALSE(secret.empty());
  }
  ~Moto() {
    ::close(end_);
    ::kill(id_, SIGTERM);
    ::waitpid(id_, nullptr, 0);
  }
  Moto(const Moto&) = delete;
  Moto& operator=(const Moto&) = delete;

  std::string url, key_id, secret;

 private:
  pid_t id_ = -1;
  int end_ = -1;
};

std::string bytes_read(S3Store& store, const ObjectInfo& info, uint64_t begin, size_t bytes) {
  std::vector<uint8_t> into(bytes);
  store.read(info, begin, into);
  return {into.begin(), into.end()};
}

std::span<const uint8_t> span_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

TEST_CASE("a store that checks signatures", "[remote][peer]") {
  const char* const python = std::getenv("COMPOSER_MOTO_PYTHON");
  if (python == nullptr) {
    WARN("skipped: COMPOSER_MOTO_PYTHON names no Python with moto[server] and boto3");
    return;
  }
  log::quiet();
  AwsEnvironment environment;
  const TemporaryFolder folder;
  const Moto moto(python, folder);
  environment.set("AWS_ACCESS_KEY_ID", moto.key_id);
  environment.set("AWS_SECRET_ACCESS_KEY", moto.secret);
  CredentialSource credentials;
  const S3Endpoint place{moto.url, "us-east-1"};
  S3Store store("bucket", place, credentials);

  std::string large((33 << 20) + 77, 'x');
  for (size_t i = 0; i < large.size(); i += 511) large[i] = static_cast<char>(i >> 9);
  const std::vector<std::string> keys{"a b/c+d=e&f%.txt", "a b/\u00fc\u4e2d~(1)'!*", "plain",
                                      "a//b/./c"};
  for (const auto& key : keys) {
    CAPTURE(key);
    store.write(key, span_of("content of " + key));
    const auto info = store.stat(key);
    REQUIRE(info);
    CHECK(bytes_read(store, *info, 3, 5) == "tent ");
  }
  store.write("large", folder.write("large", large));
  const auto info = store.stat("large");
  REQUIRE(info);
  CHECK(info->bytes == large.size());
  CHECK((bytes_read(store, *info, 0, large.size()) == large));
  std::vector<std::string> listed;
  for (const auto& object : store.list("a b/")) listed.push_back(object.key);
  CHECK(listed == std::vector<std::string>{keys[0], keys[1]});
  CHECK(store.list_folder("") == std::vector<std::string>{"a b/", "a/", "large", "plain"});
  store.write("large", span_of("other"));
  CHECK_THROWS_WITH(bytes_read(store, *info, 0, 5), Contains("has changed"));
  store.remove("large");
  CHECK_FALSE(store.stat("large"));

  const auto refused = [&](const std::string& bucket) {
    CredentialSource now;
    S3Store other(bucket, place, now);
    try {
      other.stat("plain");
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refused("no-such-bucket"), Contains("there is no bucket 'no-such-bucket'"));
  environment.set("AWS_SECRET_ACCESS_KEY", "wrong");
  CHECK_THAT(refused("bucket"), Contains("403 SignatureDoesNotMatch"));
  environment.set("AWS_ACCESS_KEY_ID", "AKIAWRONG");
  CHECK_THAT(refused("bucket"), Contains("403 InvalidAccessKeyId"));
}

}  // namespace composer::moto_test
