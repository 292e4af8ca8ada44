#include "composer/remote/credentials.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "composer/error.h"
#include "composer/remote/aws_profile.h"
#include "composer/remote/http.h"
#include "composer/remote/remote_options.h"
#include "composer/remote/remote_path.h"
#include "composer/text.h"

namespace composer {
namespace {

constexpr std::time_t kRenewBefore = 300;    ///< seconds before they expire
constexpr std::time_t kLookAgainAfter = 30;  ///< seconds, while the old ones live
constexpr double kContainerSeconds = 5;
constexpr double kInstanceSeconds = 1;  ///< where there is no such service, nothing answers
constexpr const char* kContainerHost = "http://169.254.170.2";
constexpr const char* kInstanceHost = "http://169.254.169.254";
constexpr const char* kInstancePath = "/latest/meta-data/iam/security-credentials/";

HttpRequest metadata_request(const std::string& url, double seconds) {
  HttpRequest request;
  request.url = url;
  request.connect_seconds = seconds;
  request.total_seconds = 2 * seconds;
  request.through_proxy = false;
  return request;
}

/// From the metadata services' JSON.
Credentials read_metadata(const std::string& body, const std::string& source) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  const auto text = [&](const char* name) {
    const auto value = json.is_object() ? json.find(name) : json.end();
    return value != json.end() && value->is_string() ? value->get<std::string>() : std::string();
  };
  Credentials result{text("AccessKeyId"), text("SecretAccessKey"), text("Token"), source,
                     parse_utc(text("Expiration"))};
  if (result.anonymous() || result.secret.empty())
    throw UserError(source + " answers without credentials" +
                    (text("Message").empty() ? "" : ": " + text("Message")));
  return result;
}

std::optional<Credentials> from_environment() {
  Credentials result{
      environment_value("AWS_ACCESS_KEY_ID"), environment_value("AWS_SECRET_ACCESS_KEY"),
      environment_value("AWS_SESSION_TOKEN"), "the environment (AWS_ACCESS_KEY_ID)", std::nullopt};
  if (result.key_id.empty() && result.secret.empty()) return std::nullopt;
  if (result.key_id.empty() || result.secret.empty())
    throw UserError(std::string(result.key_id.empty() ? "AWS_SECRET_ACCESS_KEY is set, but not "
                                                        "AWS_ACCESS_KEY_ID"
                                                      : "AWS_ACCESS_KEY_ID is set, but not "
                                                        "AWS_SECRET_ACCESS_KEY") +
                    ": both or none are right");
  return result;
}

std::optional<Credentials> from_profile() {
  const AwsProfile profile = read_aws_profile();
  const std::string source = "profile " + profile.name + " of ~/.aws";
  for (const auto* part : {&profile.credentials, &profile.config}) {
    const auto value = [&](const char* key) {
      const auto found = part->find(key);
      return found == part->end() ? std::string() : found->second;
    };
    Credentials result{value("aws_access_key_id"), value("aws_secret_access_key"),
                       value("aws_session_token"), source, std::nullopt};
    if (result.key_id.empty() && result.secret.empty()) continue;
    if (result.key_id.empty() || result.secret.empty())
      throw UserError(source + ": aws_access_key_id and aws_secret_access_key go together");
    return result;
  }
  for (const char* key : {"role_arn", "sso_session", "sso_start_url", "credential_process"})
    if (!profile.value(key).empty())
      throw UserError(source + ": " + key +
                      " is not supported; put what `aws configure export-credentials --format env` "
                      "prints into the environment");
  return std::nullopt;
}

std::optional<Credentials> from_container() {
  const std::string relative = environment_value("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const std::string full = environment_value("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (relative.empty() && full.empty()) return std::nullopt;
  const std::string source = "the container's metadata service";
  auto request =
      metadata_request(relative.empty() ? full : kContainerHost + relative, kContainerSeconds);
  if (relative.empty()) RemotePath checked(full);
  std::string token = environment_value("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const std::string path = environment_value("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
      !path.empty()) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) throw UserError(path + " (AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE): cannot be read");
    token = text.str();
  }
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.find_first_of("\r\n") != token.npos)
    throw UserError("the container's authorization token has more than one line");
  if (!token.empty()) request.headers.emplace_back("Authorization", token);
  constexpr int kTries = 3;
  for (int i = 1;; ++i) {
    std::string problem;
    try {
      const HttpReply reply = http_client().exchange(request).reply;
      if (reply.status == 200) return read_metadata(reply.body, source);
      problem = "it answers with status " + std::to_string(reply.status);
    } catch (const HttpFailure& failure) {
      problem = failure.what();
    }
    if (i == kTries) throw UserError(source + " gives no credentials: " + problem);
  }
}

std::optional<Credentials> from_instance() {
  if (lower_case(environment_value("AWS_EC2_METADATA_DISABLED")) == "true") return std::nullopt;
  std::string host = environment_value("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  const bool named = !host.empty();
  if (!named) host = kInstanceHost;
  while (host.ends_with('/')) host.pop_back();
  const std::string source = "the instance's metadata service";
  bool answers = named;
  try {
    auto request = metadata_request(host + "/latest/api/token", kInstanceSeconds);
    request.method = "PUT";
    request.headers.emplace_back("X-aws-ec2-metadata-token-ttl-seconds", "21600");
    const HttpReply token = http_client().exchange(request).reply;
    if (token.status != 200) return std::nullopt;
    answers = true;
    request = metadata_request(host + kInstancePath, kContainerSeconds);
    request.headers.emplace_back("X-aws-ec2-metadata-token",
                                 token.body.substr(0, token.body.find_first_of("\r\n")));
    const HttpReply roles = http_client().exchange(request).reply;
    const std::string role = roles.body.substr(0, roles.body.find_first_of("\r\n"));
    if (roles.status != 200 || role.empty()) return std::nullopt;
    request.url += percent_encoded(role);
    const HttpReply reply = http_client().exchange(request).reply;
    if (reply.status != 200)
      throw UserError(source + " answers with status " + std::to_string(reply.status) +
                      " for the role " + role);
    return read_metadata(reply.body, source);
  } catch (const HttpFailure& failure) {
    if (answers) throw UserError(source + " at " + host + " does not answer: " + failure.what());
    return std::nullopt;
  }
}

Credentials find_credentials() {
  for (auto* from : {from_environment, from_profile})
    if (auto result = from()) return *result;
  if (!environment_value("AWS_WEB_IDENTITY_TOKEN_FILE").empty())
    throw UserError(
        "AWS_WEB_IDENTITY_TOKEN_FILE is not supported; put what `aws configure export-credentials "
        "--format env` prints into the environment");
  for (auto* from : {from_container, from_instance})
    if (auto result = from()) return *result;
  return {};
}

}  // namespace

std::optional<std::time_t> parse_utc(const std::string& text) {
  std::tm parts{};
  int end = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &end) != 6 ||
      end == 0)
    return std::nullopt;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  return timegm(&parts);
}

Credentials CredentialSource::current() {
  const std::lock_guard lock(mutex_);
  const std::time_t now = std::time(nullptr);
  if (found_ && (!found_->expires || now < *found_->expires - kRenewBefore)) return *found_;
  const bool alive = found_ && now < *found_->expires;
  if (alive && now < next_look_) return *found_;
  next_look_ = now + kLookAgainAfter;
  try {
    // Those that were found once do not become nobody's.
    if (auto found = find_credentials(); !found_ || !found.anonymous()) found_ = std::move(found);
  } catch (const UserError&) {
    if (!alive) throw;
  }
  return *found_;
}

bool CredentialSource::renew(const Credentials& refused) {
  const std::lock_guard lock(mutex_);
  if (found_ && (found_->key_id != refused.key_id || found_->token != refused.token)) return true;
  if (auto found = find_credentials(); !found.anonymous()) found_ = std::move(found);
  return found_->key_id != refused.key_id || found_->token != refused.token ||
         found_->secret != refused.secret;
}

CredentialSource& credential_source() {
  static CredentialSource& source = *new CredentialSource;
  return source;
}

}  // namespace composer
