// The files of Amazon's command line program, ~/.aws/credentials and ~/.aws/config, and regions.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace composer {

/// The whole text of a file. UserError, which calls the file `name`, when it cannot be read.
std::string text_of_file(const std::filesystem::path& path, const std::string& name);

/// Section -> key -> value.
using AwsFile = std::map<std::string, std::map<std::string, std::string>>;

/// Leaves out comments, blank lines and nested values; joins sections that appear twice.
AwsFile parse_aws_file(std::string_view text);

/// The profile that AWS_PROFILE names, by default "default", from both files.
struct AwsProfile {
  std::string name;
  std::map<std::string, std::string> credentials;  ///< its values in ~/.aws/credentials
  std::map<std::string, std::string> config;       ///< its values in ~/.aws/config

  /// The value in `credentials`, else in `config`; empty when neither has it.
  std::string value(const std::string& key) const;
};

/// UserError when AWS_PROFILE names a profile that neither file has, or a file cannot be read.
AwsProfile read_aws_profile();

/// Whether the text could be a region's name, such as us-east-1.
bool is_region(const std::string& text);
/// `region`, else AWS_REGION, AWS_DEFAULT_REGION or the profile's region; empty without any.
/// UserError when it is no region's name.
std::string aws_region(std::string region);
/// The host of Amazon's service ("s3", "sts") in the region.
std::string amazon_host(const std::string& service, const std::string& region);

}  // namespace composer
