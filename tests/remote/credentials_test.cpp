#include "base/remote/credentials.h"

#include <atomic>
#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/remote/aws_profile.h"
#include "base/remote/s3_store.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/memory_store.h"

namespace composer::credentials_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

std::string problem_of(CredentialSource& source) {
  try {
    source.current();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string metadata(const std::string& id, const std::string& expiration) {
  return R"({"Code": "Success", "AccessKeyId": ")" + id +
         R"(", "SecretAccessKey": "hidden", "Token": "token-)" + id + R"(", "Expiration": ")" +
         expiration + R"("})";
}

constexpr const char* kFarOff = "2099-01-01T00:00:00Z";
constexpr const char* kLongAgo = "2020-01-01T00:00:00Z";

}  // namespace

TEST_CASE("credentials of the environment", "[remote]") {
  AwsEnvironment environment;
  CHECK(CredentialSource().current().anonymous());
  environment.set("AWS_ACCESS_KEY_ID", "id");
  CredentialSource half;
  CHECK_THAT(problem_of(half), Contains("AWS_SECRET_ACCESS_KEY"));
  environment.set("AWS_SECRET_ACCESS_KEY", "hidden");
  environment.set("AWS_SESSION_TOKEN", "token");
  const Credentials found = CredentialSource().current();
  CHECK(found.key_id == "id");
  CHECK(found.secret == "hidden");
  CHECK(found.token == "token");
  CHECK_FALSE(found.expires);
}

TEST_CASE("credentials of ~/.aws", "[remote]") {
  AwsEnvironment environment;
  const auto& home = environment.home();
  std::filesystem::create_directory(home / ".aws");
  home.write(".aws/credentials",
             "# comment\n[default]\naws_access_key_id = one\naws_secret_access_key=hidden\n\n"
             "[work]\naws_access_key_id=two\naws_secret_access_key = hid=den # remark\n"
             "aws_session_token = t\n[half]\naws_access_key_id=x\n");
  home.write(".aws/config",
             "[default]\nregion = eu-west-1\ns3 =\n  addressing_style = path\n"
             "[profile work]\nregion=eu-west-2\nendpoint_url = https://store.example.org\n"
             "[profile only]\naws_access_key_id=three\naws_secret_access_key=hidden\n"
             "[profile sso]\nsso_session = x\n");
  CHECK(CredentialSource().current().key_id == "one");
  CHECK(s3_endpoint() == S3Endpoint{"", "eu-west-1"});
  environment.set("AWS_PROFILE", "work");
  const Credentials work = CredentialSource().current();
  CHECK(work.key_id == "two");
  CHECK(work.secret == "hid=den");
  CHECK(work.token == "t");
  CHECK_THAT(work.source, Contains("profile work"));
  CHECK(s3_endpoint() == S3Endpoint{"https://store.example.org", "eu-west-2"});
  environment.set("AWS_PROFILE", "only");
  CHECK(CredentialSource().current().key_id == "three");
  const auto refused = [&](const std::string& profile) {
    environment.set("AWS_PROFILE", profile);
    CredentialSource source;
    return problem_of(source);
  };
  CHECK_THAT(refused("nobody"),
             Contains("AWS_PROFILE=nobody: neither ") && Contains(".aws/config"));
  CHECK_THAT(refused("half"), Contains("go together"));
  CHECK_THAT(refused("sso"), Contains("sso_session is not supported") && Contains("export"));
  environment.set("AWS_PROFILE", "");
  environment.set("AWS_SHARED_CREDENTIALS_FILE", home.write("mine",
                                                            "[default]\naws_access_key_id=four\n"
                                                            "aws_secret_access_key=hidden\n")
                                                     .string());
  CHECK(CredentialSource().current().key_id == "four");
  environment.set("AWS_ACCESS_KEY_ID", "first");
  environment.set("AWS_SECRET_ACCESS_KEY", "hidden");
  CHECK(CredentialSource().current().key_id == "first");
}

TEST_CASE("what stands in ~/.aws but means nothing is left out", "[remote]") {
  const AwsFile file = parse_aws_file("x=1\n[a]\n y=2\nz\n;c\nk = v\n[b\nq=3\n[a]\nl=w\r\n");
  CHECK(file == AwsFile{{"a", {{"k", "v"}, {"l", "w"}}}});
}

TEST_CASE("credentials of a container's metadata service", "[remote]") {
  AwsEnvironment environment;
  std::atomic<int> asked = 0;
  const HttpServer server([&](const ServerRequest& request) -> ServerReply {
    if (request.headers.count("authorization") == 0 ||
        request.headers.at("authorization") != "pass")
      return {.status = 401};
    const int time = ++asked;
    return {.body = metadata("id" + std::to_string(time), time == 1 ? kLongAgo : kFarOff)};
  });
  environment.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/creds");
  CredentialSource source;
  CHECK_THAT(problem_of(source), Contains("container's metadata service") && Contains("401"));
  environment.set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                  environment.home().write("token", "pass\n").string());
  CHECK(source.current().key_id == "id1");
  // Those have expired.
  CHECK(source.current().key_id == "id2");
  CHECK(source.current().token == "token-id2");
  CHECK(asked == 2);
}

TEST_CASE("credentials of an instance's metadata service", "[remote]") {
  AwsEnvironment environment;
  bool has_role = true;
  const HttpServer server([&](const ServerRequest& request) -> ServerReply {
    if (request.path == "/latest/api/token" && request.method == "PUT" &&
        request.headers.count("x-aws-ec2-metadata-token-ttl-seconds") == 1)
      return {.body = "session"};
    if (request.headers.count("x-aws-ec2-metadata-token") == 0 ||
        request.headers.at("x-aws-ec2-metadata-token") != "session")
      return {.status = 401};
    const std::string path = "/latest/meta-data/iam/security-credentials/";
    if (request.path == path && has_role) return {.body = "role-1"};
    if (request.path == path + "role-1") return {.body = metadata("instance", kFarOff)};
    return {.status = 404};
  });
  environment.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url() + "/");
  CHECK(CredentialSource().current().anonymous());
  environment.set("AWS_EC2_METADATA_DISABLED", "");
  CHECK(CredentialSource().current().key_id == "instance");
  has_role = false;
  CHECK(CredentialSource().current().anonymous());
}

TEST_CASE("credentials of a role that a web identity has", "[remote]") {
  AwsEnvironment environment;
  std::atomic<int> asked = 0;
  const HttpServer server([&](const ServerRequest& request) -> ServerReply {
    if (request.method != "POST" ||
        request.headers.at("content-type") != "application/x-www-form-urlencoded")
      return {.status = 404};
    const int time = ++asked;
    if (time == 3)
      return {.status = 400,
              .body =
                  "<ErrorResponse><Error><Code>ExpiredTokenException</Code><Message>Token "
                  "expired</Message></Error></ErrorResponse>"};
    const std::string id = "id" + std::to_string(time);
    return {.body =
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>"
                "<Credentials><SessionToken>token-" +
                id + "</SessionToken><SecretAccessKey>hidden</SecretAccessKey><Expiration>" +
                (time == 1 ? kLongAgo : kFarOff) + "</Expiration><AccessKeyId>" + id +
                "</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>"
                "</AssumeRoleWithWebIdentityResponse>"};
  });
  const auto file = environment.home().write("token", "first&token\n");
  environment.set("AWS_ENDPOINT_URL_STS", server.url() + "/");
  environment.set("AWS_WEB_IDENTITY_TOKEN_FILE", file.string());
  CredentialSource source;
  CHECK_THAT(problem_of(source), Contains("AWS_ROLE_ARN"));
  environment.set("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
  CHECK(source.current().key_id == "id1");
  CHECK(server.requests().at(0).body ==
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole"
        "%2Fr&RoleSessionName=composer&WebIdentityToken=first%26token");
  // Those have expired; the token is another by now.
  environment.home().write("token", "second");
  const Credentials renewed = source.current();
  CHECK(renewed.key_id == "id2");
  CHECK(renewed.secret == "hidden");
  CHECK(renewed.token == "token-id2");
  CHECK_THAT(server.requests().at(1).body, Contains("WebIdentityToken=second"));
  CredentialSource refused;
  CHECK_THAT(problem_of(refused), Contains("role arn:aws:iam::1:role/r") &&
                                      Contains("400 ExpiredTokenException: Token expired"));
  environment.set("AWS_WEB_IDENTITY_TOKEN_FILE", "");
  environment.set("AWS_ROLE_ARN", "");
  std::filesystem::create_directory(environment.home() / ".aws");
  environment.home().write(".aws/config",
                           "[default]\nrole_arn = of-profile\nrole_session_name = "
                           "s\nweb_identity_token_file = " +
                               file.string() + "\n");
  CHECK(CredentialSource().current().key_id == "id4");
  CHECK_THAT(server.requests().at(3).body, Contains("RoleArn=of-profile&RoleSessionName=s&"));
}

TEST_CASE("credentials that a program prints", "[remote][slow]") {
  AwsEnvironment environment;
  const auto& home = environment.home();
  std::filesystem::create_directory(home / ".aws");
  home.write(".aws/config", "[default]\ncredential_process = cat " + (home / "printed").string() +
                                "\n[profile fails]\ncredential_process = echo refused >&2; exit 3\n"
                                "[profile other]\ncredential_process = echo nothing\n");
  const auto print = [&](const std::string& id, const std::string& expiration) {
    home.write("printed", R"({"Version": 1, "AccessKeyId": ")" + id +
                              R"(", "SecretAccessKey": "hidden",)" + "\n" +
                              R"("SessionToken": "t", "Expiration": ")" + expiration + R"("})");
  };
  CredentialSource source;
  print("id1", kLongAgo);
  CHECK(source.current().key_id == "id1");
  print("id2", kFarOff);
  const Credentials renewed = source.current();
  CHECK(renewed.key_id == "id2");
  CHECK(renewed.secret == "hidden");
  CHECK(renewed.token == "t");
  CHECK(renewed.expires);
  const auto refused = [&](const std::string& profile) {
    environment.set("AWS_PROFILE", profile);
    CredentialSource of_profile;
    return problem_of(of_profile);
  };
  CHECK_THAT(refused("fails"), Contains("credential_process of profile fails of ~/.aws ends with "
                                        "status 3: refused"));
  CHECK_THAT(refused("other"), Contains("profile other of ~/.aws answers without credentials"));
}

TEST_CASE("a machine's role is found whatever a profile has that nobody named", "[remote]") {
  AwsEnvironment environment;
  log::quiet();
  const HttpServer server(
      [](const ServerRequest&) -> ServerReply { return {.body = metadata("machine", kFarOff)}; });
  environment.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/creds");
  std::filesystem::create_directory(environment.home() / ".aws");
  environment.home().write(".aws/config",
                           "[default]\nrole_arn = r\nsource_profile = x\n[profile x]\n");
  CHECK(CredentialSource().current().key_id == "machine");
  const std::string word =
      "profile default of ~/.aws: role_arn is not supported; let another profile have "
      "`credential_process = aws configure export-credentials --profile default`";
  CredentialSource named, nobody_else;
  environment.set("AWS_PROFILE", "default");
  CHECK_THAT(problem_of(named), Contains(word));
  environment.set("AWS_PROFILE", "");
  environment.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "");
  CHECK_THAT(problem_of(nobody_else), Contains(word));
}

TEST_CASE("credentials that expired are renewed", "[remote]") {
  AwsEnvironment environment;
  log::quiet();
  MemoryStore memory;
  memory.put("x", "0123456789");
  std::atomic<int> asked = 0;
  const HttpServer server([&](const ServerRequest&) -> ServerReply {
    return {.body = metadata("id" + std::to_string(++asked), kFarOff)};
  });
  environment.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/creds");
  memory.set_interference([](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.headers.at("authorization").find("=id2/") != std::string::npos &&
        request.headers.at("x-amz-security-token") == "token-id2")
      return std::nullopt;
    return error_reply(400, "ExpiredToken", "The provided token has expired.");
  });
  CredentialSource source;
  S3Store store("bucket", {memory.url(), ""}, source);
  CHECK(store.list("").size() == 1);
  CHECK(asked == 2);
}

TEST_CASE("times of the metadata services", "[remote]") {
  CHECK(parse_utc("2015-08-30T12:36:00Z") == 1440938160);
  CHECK(parse_utc("2015-08-30T14:36:00.123+02:00") == 1440938160);
  CHECK(parse_utc("2015-08-30T07:06:00-05:30") == 1440938160);
  CHECK_FALSE(parse_utc(""));
  CHECK_FALSE(parse_utc("soon"));
}

}  // namespace composer::credentials_test
