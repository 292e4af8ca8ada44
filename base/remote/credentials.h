// Who sends requests to a store: found where Amazon's own programs find it. No function shows a
// secret.
#pragma once

#include <ctime>
#include <mutex>
#include <optional>
#include <string>

namespace composer {

struct Credentials {
  std::string key_id, secret, token;
  std::string source;                  ///< for messages: where they come from
  std::optional<std::time_t> expires;  ///< nothing: never

  /// Requests are sent without a signature.
  bool anonymous() const { return key_id.empty(); }
};

/// In this order: the environment's keys (AWS_ACCESS_KEY_ID), its web identity
/// (AWS_WEB_IDENTITY_TOKEN_FILE), the profile of ~/.aws (keys, web identity, credential_process),
/// the container's and the instance's metadata service, else anonymous. Any thread may call any of
/// these.
class CredentialSource {
 public:
  /// Those that are valid for some minutes to come. region: of Amazon's token service; empty:
  /// us-east-1. UserError or RunError where a source that the user named does not give them.
  Credentials current(const std::string& region = {});
  /// The store refused these: current() looks again. Whether others are there now.
  bool renew(const Credentials& refused, const std::string& region = {});

 private:
  std::mutex mutex_;
  std::optional<Credentials> found_;
  std::time_t next_look_ = 0;
};

/// 2026-11-23T03:04:05Z, or with an offset: 2026-11-23T05:04:05+02:00. Nothing where it is no such
/// time.
std::optional<std::time_t> parse_utc(const std::string& text);

/// The one that all stores of a process share.
CredentialSource& credential_source();

}  // namespace composer
