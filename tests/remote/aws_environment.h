// The environment that stores look at, set for one test: none of the user's own credentials.
#pragma once

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "tests/temporary_folder.h"

namespace composer::test {

class AwsEnvironment {
 public:
  AwsEnvironment() {
    for (const char* name : {"AWS_ACCESS_KEY_ID",
                             "AWS_SECRET_ACCESS_KEY",
                             "AWS_SESSION_TOKEN",
                             "AWS_PROFILE",
                             "AWS_SHARED_CREDENTIALS_FILE",
                             "AWS_CONFIG_FILE",
                             "AWS_REGION",
                             "AWS_DEFAULT_REGION",
                             "AWS_ENDPOINT_URL",
                             "AWS_ENDPOINT_URL_S3",
                             "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                             "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                             "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                             "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                             "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                             "AWS_WEB_IDENTITY_TOKEN_FILE",
                             "AWS_ROLE_ARN",
                             "AWS_ROLE_SESSION_NAME",
                             "AWS_ENDPOINT_URL_STS",
                             "AWS_CA_BUNDLE",
                             "CURL_CA_BUNDLE",
                             "SSL_CERT_FILE",
                             "http_proxy",
                             "https_proxy",
                             "HTTPS_PROXY",
                             "all_proxy",
                             "ALL_PROXY"})
      set(name, "");
    set("AWS_EC2_METADATA_DISABLED", "true");
    set("HOME", home_.path().string());
  }
  ~AwsEnvironment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  AwsEnvironment(const AwsEnvironment&) = delete;
  AwsEnvironment& operator=(const AwsEnvironment&) = delete;

  /// An empty value unsets it.
  void set(const std::string& name, const std::string& value) {
    const char* const now = std::getenv(name.c_str());
    before_.emplace(name, now == nullptr ? std::nullopt : std::optional<std::string>(now));
    if (value.empty()) {
      ::unsetenv(name.c_str());
    } else {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  void set_keys() {
    set("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
    set("AWS_SECRET_ACCESS_KEY", "secret-of-the-test");
  }
  const TemporaryFolder& home() const { return home_; }

 private:
  TemporaryFolder home_;
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace composer::test
