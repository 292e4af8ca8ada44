#include "composer/checkpoint/provenance.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "composer/checkpoint/dcp.h"
#include "composer/checkpoint/manifest.h"
#include "composer/checkpoint/safetensors.h"

namespace composer {
namespace {

using nlohmann::ordered_json;
using Lines = std::vector<std::string>;

Lines lines_in(const std::map<std::string, std::string>& metadata, const std::string& key,
               const std::filesystem::path& path) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return {};
  try {
    return ordered_json::parse(found->second).get<Lines>();
  } catch (const nlohmann::json::exception&) {
    throw UserError(path.string() + ": its metadata '" + key + "' is no list of strings");
  }
}

}  // namespace

Provenance read_provenance(const std::filesystem::path& path) try {
  if (is_dcp_folder(path)) return {};
  if (std::filesystem::is_directory(path)) {
    const auto manifest = read_manifest(path);
    return {manifest.value("recipe", ""), manifest.value("network", Lines{}),
            manifest.value("class_names", Lines{}), manifest.value("device", ""),
            manifest.value("precision", "")};
  }
  if (path.extension() != ".safetensors") return {};
  const auto metadata = read_safetensors_metadata(path);
  const auto recipe = metadata.find("recipe");
  return {recipe == metadata.end() ? "" : recipe->second, lines_in(metadata, "network", path),
          lines_in(metadata, "class_names", path)};
} catch (const nlohmann::json::exception&) {
  throw UserError((path / "manifest.json").string() + ": is damaged");
}

std::map<std::string, std::string> to_metadata(const Provenance& provenance) {
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  const auto put = [&](const char* key, const Lines& lines) {
    if (!lines.empty())
      metadata[key] =
          ordered_json(lines).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  };
  if (!provenance.recipe.empty()) metadata["recipe"] = provenance.recipe;
  put("network", provenance.network);
  put("class_names", provenance.class_names);
  return metadata;
}

}  // namespace composer
