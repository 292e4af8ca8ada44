#include "base/remote/aws_profile.h"

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/remote/remote_options.h"
#include "base/text.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

fs::path file_path(const char* variable, const char* name) {
  if (const std::string path = environment_value(variable); !path.empty()) return path;
  const std::string home = environment_value("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".aws" / name;
}

AwsFile read_aws_file(const fs::path& path) {
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return {};
  return parse_aws_file(text_of_file(path, path.string()));
}

}  // namespace

std::string text_of_file(const fs::path& path, const std::string& name) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw UserError(name + ": cannot be read");
  return text.str();
}

AwsFile parse_aws_file(std::string_view text) {
  AwsFile file;
  std::map<std::string, std::string>* section = nullptr;
  for (const std::string_view line : separated(text, '\n')) {
    const std::string content = trimmed(line);
    if (content.empty() || content[0] == '#' || content[0] == ';') continue;
    if (content[0] == '[') {
      const size_t close = content.find(']');
      section = close == content.npos ? nullptr : &file[trimmed(content.substr(1, close - 1))];
      continue;
    }
    // A line that begins with a space belongs to the value before it.
    if (line[0] == ' ' || line[0] == '\t') continue;
    const size_t equals = content.find('=');
    if (section == nullptr || equals == content.npos) continue;
    std::string value = trimmed(std::string_view(content).substr(equals + 1));
    for (const char* mark : {" #", " ;", "\t#", "\t;"}) value = value.substr(0, value.find(mark));
    (*section)[trimmed(std::string_view(content).substr(0, equals))] = trimmed(value);
  }
  return file;
}

std::string AwsProfile::value(const std::string& key) const {
  for (const auto* part : {&credentials, &config})
    if (const auto found = part->find(key); found != part->end()) return found->second;
  return "";
}

AwsProfile read_aws_profile() {
  const std::string named = environment_value("AWS_PROFILE");
  const fs::path credentials_path = file_path("AWS_SHARED_CREDENTIALS_FILE", "credentials");
  const fs::path config_path = file_path("AWS_CONFIG_FILE", "config");
  AwsFile credentials = read_aws_file(credentials_path), config = read_aws_file(config_path);
  AwsProfile profile;
  profile.name = named.empty() ? "default" : named;
  const std::string in_config = "profile " + profile.name;
  const bool found = credentials.contains(profile.name) || config.contains(in_config) ||
                     (profile.name == "default" && config.contains("default"));
  if (!named.empty() && !found && named != "default")
    throw UserError("AWS_PROFILE=" + named + ": neither " + credentials_path.string() + " nor " +
                    config_path.string() + " has this profile");
  profile.credentials = credentials[profile.name];
  const bool is_plain = profile.name == "default" && !config.contains(in_config);
  profile.config = config[is_plain ? "default" : in_config];
  return profile;
}

bool is_region(const std::string& text) {
  return !text.empty() &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == text.npos;
}

std::string aws_region(std::string region) {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"})
    if (region.empty()) region = environment_value(name);
  if (region.empty()) region = read_aws_profile().value("region");
  if (!region.empty() && !is_region(region))
    throw UserError("'" + region + "' is no name of a region; one is us-east-1");
  return region;
}

std::string amazon_host(const std::string& service, const std::string& region) {
  return service + "." + region +
         (region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
}

}  // namespace composer
