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

/// In this order: the environment (AWS_ACCESS_KEY_ID), the profile of ~/.aws, the container's and
/// the instance's metadata service, else anonymous. Any thread may call any of these.
class CredentialSource {
 public:
  /// Those that are valid for some minutes to come. UserError where a source that the user named
  /// does not give them.
  Credentials current();
  /// The store refused these: current() looks again. Whether others are there now.
  bool renew(const Credentials& refused);

 private:
  std::mutex mutex_;
  std::optional<Credentials> found_;
  std::time_t next_look_ = 0;
};

/// 2026-11-23T03:04:05Z. Nothing where it is no such time.
std::optional<std::time_t> parse_utc(const std::string& text);

/// The one that all stores of a process share.
CredentialSource& credential_source();

}  // namespace composer
