// The files of Amazon's command line program: ~/.aws/credentials and ~/.aws/config.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace composer {

/// Section -> key -> value.
using AwsFile = std::map<std::string, std::map<std::string, std::string>>;

/// Comments, blank lines and nested values are left out; sections that appear twice are one.
AwsFile parse_aws_file(std::string_view text);

/// What both files say of the profile that AWS_PROFILE names ("default" otherwise).
struct AwsProfile {
  std::string name;
  std::map<std::string, std::string> credentials;  ///< of ~/.aws/credentials
  std::map<std::string, std::string> config;       ///< of ~/.aws/config

  /// From the credentials, else from the config; empty where neither has it.
  std::string value(const std::string& key) const;
};

/// UserError where AWS_PROFILE names a profile that neither file has, and where a file is there
/// that cannot be read.
AwsProfile read_aws_profile();

}  // namespace composer
