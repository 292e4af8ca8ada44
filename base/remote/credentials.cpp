#include "base/remote/credentials.h"

#include <poll.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process/child.h"
#include "base/remote/aws_profile.h"
#include "base/remote/http.h"
#include "base/remote/leaving.h"
#include "base/remote/remote_options.h"
#include "base/remote/remote_path.h"
#include "base/remote/store_reply.h"
#include "base/remote/store_requests.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr std::time_t kRenewBefore = 300;    ///< seconds before the credentials expire
constexpr std::time_t kLookAgainAfter = 30;  ///< seconds, while old credentials are valid
constexpr double kProcessSeconds = 60;
constexpr double kContainerSeconds = 5;
constexpr double kInstanceSeconds = 1;  ///< without such a service nothing answers
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

/// Credentials from the JSON of a metadata service or of credential_process. token: the key of the
/// session token.
Credentials read_json(const std::string& body, const char* token, const std::string& source) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  const auto text = [&](const char* name) {
    const auto value = json.is_object() ? json.find(name) : json.end();
    return value != json.end() && value->is_string() ? value->get<std::string>() : std::string();
  };
  Credentials result{text("AccessKeyId"), text("SecretAccessKey"), text(token), source,
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
  const std::string id = "AWS_ACCESS_KEY_ID", secret = "AWS_SECRET_ACCESS_KEY";
  if (result.key_id.empty() || result.secret.empty())
    throw UserError((result.key_id.empty() ? secret : id) + " is set, but not " +
                    (result.key_id.empty() ? id : secret) + "; set both or neither");
  return result;
}

/// named_by: the variable or key that names the file, for UserError.
std::string read_token(const std::string& path, const std::string& named_by) {
  return trimmed(text_of_file(path, path + " (" + named_by + ")"));
}

/// Credentials from Amazon's Security Token Service, or a compatible one, for a token of another
/// issuer, such as that of a Kubernetes service account.
Credentials of_web_identity(const std::string& role, const std::string& session,
                            const std::string& token_file, const std::string& named_by,
                            const std::string& region) {
  std::string url;
  for (const char* name : {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"})
    if (url.empty()) url = environment_value(name);
  if (url.empty()) url = "https://" + amazon_host("sts", region.empty() ? "us-east-1" : region);
  while (url.ends_with('/')) url.pop_back();
  const std::string body =
      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" + percent_encoded(role) +
      "&RoleSessionName=" + percent_encoded(session.empty() ? "composer" : session) +
      "&WebIdentityToken=" + percent_encoded(read_token(token_file, named_by));
  const std::string source = "the role " + role + " (" + named_by + ")";
  StoreRequests requests(Patience{.tries = 5});
  const auto request = [&] {
    HttpRequest made;
    made.method = "POST";
    made.url = url + "/";
    made.headers.emplace_back("content-type", "application/x-www-form-urlencoded");
    made.body = {reinterpret_cast<const uint8_t*>(body.data()), body.size()};
    return made;
  };
  const auto may_pass = [](const HttpReply& reply) {
    return read_problem(reply.body).code == "IDPCommunicationError";
  };
  const HttpReply reply =
      requests.send({.text = source + ": " + url, .request = request, .may_pass = may_pass});
  if (!reply.succeeded())
    throw UserError(source + ": " + url + " gives no credentials: " + problem_text(reply));
  const XmlElement root = parse_xml(reply.body);
  const XmlElement* const result = root.child("AssumeRoleWithWebIdentityResult");
  const XmlElement* const found = result == nullptr ? nullptr : result->child("Credentials");
  if (found == nullptr || found->text_of("AccessKeyId").empty())
    throw UserError(source + ": " + url + " answers without credentials");
  return {found->text_of("AccessKeyId"), found->text_of("SecretAccessKey"),
          found->text_of("SessionToken"), source, parse_utc(found->text_of("Expiration"))};
}

std::optional<Credentials> from_web_identity(const std::string& region) {
  const char* const name = "AWS_WEB_IDENTITY_TOKEN_FILE";
  const std::string file = environment_value(name), role = environment_value("AWS_ROLE_ARN");
  if (file.empty()) return std::nullopt;
  if (role.empty())
    throw UserError(name + std::string(" is set, but not AWS_ROLE_ARN: both or none are right"));
  return of_web_identity(role, environment_value("AWS_ROLE_SESSION_NAME"), file, name, region);
}

/// Credentials that a shell command prints within a minute.
Credentials of_process(const std::string& command, const std::string& source) {
  std::string output, last_error;
  Child child({"/bin/sh", {"-c", command}, {}, {}}, [&](Stream stream, std::string_view line) {
    if (stream == Stream::output)
      output.append(line).append("\n");
    else if (const auto text = trimmed(line); !text.empty())
      last_error = text;
  });
  for (const double late = steady_seconds() + kProcessSeconds; child.poll();) {
    if (steady_seconds() > late || LeaveWhen::asked())
      throw UserError(source + " has not ended; it has a minute");
    const auto& [out, errors] = child.outputs();
    pollfd sources[] = {{out, POLLIN, 0}, {errors, POLLIN, 0}};
    ::poll(sources, 2, 20);
    child.read(Stream::output), child.read(Stream::errors);
  }
  if (child.status() != 0)
    throw UserError(source + " ends with status " + std::to_string(child.status()) +
                    (last_error.empty() ? "" : ": " + last_error));
  return read_json(output, "SessionToken", source);
}

std::string source_of(const AwsProfile& profile) {
  return "profile " + profile.name + " of ~/.aws";
}

std::optional<Credentials> from_profile(const AwsProfile& profile, const std::string& region) {
  const std::string source = source_of(profile);
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
  const std::string role = profile.value("role_arn");
  if (const auto file = profile.value("web_identity_token_file"); !file.empty() && !role.empty())
    return of_web_identity(role, profile.value("role_session_name"), file,
                           "web_identity_token_file of " + source, region);
  if (const auto command = profile.value("credential_process"); !command.empty())
    return of_process(command, "credential_process of " + source);
  return std::nullopt;
}

/// A message about a key of the profile that other programs support; empty without one.
std::string unsupported(const AwsProfile& profile) {
  for (const char* key : {"role_arn", "sso_session", "sso_start_url"})
    if (!profile.value(key).empty())
      return source_of(profile) + ": " + key +
             " is not supported; let another profile have `credential_process = aws configure "
             "export-credentials --profile " +
             profile.name +
             "`, and name it by AWS_PROFILE: its credentials are renewed while a run lasts";
  return "";
}

std::optional<Credentials> from_container() {
  const std::string relative = environment_value("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const std::string full = environment_value("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (relative.empty() && full.empty()) return std::nullopt;
  const std::string source = "the container's metadata service";
  auto request =
      metadata_request(relative.empty() ? full : kContainerHost + relative, kContainerSeconds);
  if (relative.empty()) RemotePath checked(full);
  std::string token = trimmed(environment_value("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
  if (const std::string path = environment_value("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
      !path.empty())
    token = read_token(path, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (token.find_first_of("\r\n") != token.npos)
    throw UserError("the container's authorization token has more than one line");
  if (!token.empty()) request.headers.emplace_back("Authorization", token);
  constexpr int kTries = 3;
  for (int i = 1;; ++i) {
    std::string problem;
    try {
      const HttpReply reply = http_client().exchange(request);
      if (reply.status == 200) return read_json(reply.body, "Token", source);
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
    const HttpReply token = http_client().exchange(request);
    if (token.status != 200) return std::nullopt;
    answers = true;
    request = metadata_request(host + kInstancePath, kContainerSeconds);
    request.headers.emplace_back("X-aws-ec2-metadata-token",
                                 token.body.substr(0, token.body.find_first_of("\r\n")));
    const HttpReply roles = http_client().exchange(request);
    const std::string role = roles.body.substr(0, roles.body.find_first_of("\r\n"));
    if (roles.status != 200 || role.empty()) return std::nullopt;
    request.url += percent_encoded(role);
    const HttpReply reply = http_client().exchange(request);
    if (reply.status != 200)
      throw UserError(source + " answers with status " + std::to_string(reply.status) +
                      " for the role " + role);
    return read_json(reply.body, "Token", source);
  } catch (const HttpFailure& failure) {
    if (answers) throw UserError(source + " at " + host + " does not answer: " + failure.what());
    return std::nullopt;
  }
}

Credentials find_credentials(const std::string& region) {
  if (auto result = from_environment()) return *result;
  if (auto result = from_web_identity(region)) return *result;
  const AwsProfile profile = read_aws_profile();
  if (auto result = from_profile(profile, region)) return *result;
  const std::string problem = unsupported(profile);
  const bool is_named = !environment_value("AWS_PROFILE").empty();
  if (!problem.empty() && is_named) throw UserError(problem);
  for (auto* from : {from_container, from_instance})
    if (auto result = from()) {
      if (static std::atomic<bool> told; !problem.empty() && !told.exchange(true))
        log::warn(problem + "; until then they come from " + result->source);
      return *result;
    }
  if (!problem.empty()) throw UserError(problem);
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
  const char* zone = text.c_str() + end;
  if (*zone == '.') zone += 1 + std::strspn(zone + 1, "0123456789");
  int hours = 0, minutes = 0;
  if (*zone == '+' || *zone == '-') std::sscanf(zone + 1, "%2d:%2d", &hours, &minutes);
  const std::time_t ahead = 60 * (60 * hours + minutes);
  return timegm(&parts) + (*zone == '-' ? ahead : -ahead);
}

Credentials CredentialSource::current(const std::string& region) {
  const std::lock_guard lock(mutex_);
  const std::time_t now = std::time(nullptr);
  if (found_ && (!found_->expires || now < *found_->expires - kRenewBefore)) return *found_;
  const bool alive = found_ && now < *found_->expires;
  if (alive && now < next_look_) return *found_;
  next_look_ = now + kLookAgainAfter;
  try {
    // Anonymous credentials never replace others.
    if (auto found = find_credentials(region); !found_ || !found.anonymous())
      found_ = std::move(found);
  } catch (const std::runtime_error&) {  // UserError, RunError
    if (!alive) throw;
  }
  return *found_;
}

bool CredentialSource::renew(const Credentials& refused, const std::string& region) {
  const std::lock_guard lock(mutex_);
  if (found_ && (found_->key_id != refused.key_id || found_->token != refused.token)) return true;
  if (auto found = find_credentials(region); !found.anonymous()) found_ = std::move(found);
  return found_->key_id != refused.key_id || found_->token != refused.token ||
         found_->secret != refused.secret;
}

CredentialSource& credential_source() {
  static CredentialSource& source = *new CredentialSource;
  return source;
}

}  // namespace composer
