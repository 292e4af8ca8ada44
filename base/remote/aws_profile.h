// The files of Amazon's command line program: ~/.aws/credentials and ~/.aws/config.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace composer {

/// The whole text of a file. name: how UserError, where it cannot be read, names it.
std::string text_of_file(const std::filesystem::path& path, const std::string& name);

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

/// Whether the text could be a region's name, as us-east-1 is.
bool is_region(const std::string& text);
/// The given one, else by AWS_REGION, AWS_DEFAULT_REGION, the profile; empty where none says.
/// UserError where it is none.
std::string aws_region(std::string region);
/// Of Amazon's service ("s3", "sts") in the region.
std::string amazon_host(const std::string& service, const std::string& region);

}  // namespace composer
