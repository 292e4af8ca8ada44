// Credentials for stores, from the same sources as Amazon's own programs. No message has a secret.
#pragma once

#include <ctime>
#include <mutex>
#include <optional>
#include <string>

namespace composer {

struct Credentials {
  std::string key_id, secret, token;
  std::string source;                  ///< their source, for messages
  std::optional<std::time_t> expires;  ///< nothing: they never expire

  /// Whether requests are sent without a signature.
  bool anonymous() const { return key_id.empty(); }
};

/// In this order: the environment's keys (AWS_ACCESS_KEY_ID), its web identity
/// (AWS_WEB_IDENTITY_TOKEN_FILE), the profile of ~/.aws (keys, web identity, credential_process),
/// the container's and the instance's metadata service, else anonymous. Any thread may call any of
/// these.
class CredentialSource {
 public:
  /// Credentials that stay valid for some minutes. region: of Amazon's token service; empty:
  /// us-east-1. UserError or RunError when a source that the user named gives none.
  Credentials current(const std::string& region = {});
  /// Looks for other credentials after the store has refused these. Returns whether there are
  /// others.
  bool renew(const Credentials& refused, const std::string& region = {});

 private:
  std::mutex mutex_;
  std::optional<Credentials> found_;
  std::time_t next_look_ = 0;
};

/// Parses 2026-11-23T03:04:05Z, or with an offset 2026-11-23T05:04:05+02:00. Nothing for any other
/// text.
std::optional<std::time_t> parse_utc(const std::string& text);

/// The source that all stores of a process share.
CredentialSource& credential_source();

}  // namespace composer
