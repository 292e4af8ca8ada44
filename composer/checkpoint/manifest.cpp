#include "composer/checkpoint/manifest.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/params/foreign_json.h"
#include "composer/checkpoint/dcp.h"
#include "composer/checkpoint/safetensors.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Calls `receive` with the file's bytes, block by block.
template <class Receive>
void read_blocks(const fs::path& path, Receive&& receive) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  int error = file < 0 ? errno : 0;
  std::vector<uint8_t> block(1 << 20);
  while (error == 0) {
    const ssize_t bytes = ::read(file, block.data(), block.size());
    if (bytes == 0) break;
    if (bytes > 0)
      receive(std::span<const uint8_t>(block.data(), static_cast<size_t>(bytes)));
    else if (errno != EINTR)
      error = errno;
  }
  if (file >= 0) ::close(file);
  if (error == 0) return;
  if (error == ENOENT || error == ENOTDIR) throw DamagedCheckpoint(path.string() + ": is missing");
  throw UserError(path.string() + ": cannot be read: " + std::strerror(error));
}

Checksum checksum_of(const fs::path& path) {
  Checksum sum;
  read_blocks(path, [&](std::span<const uint8_t> bytes) { sum.add(bytes); });
  return sum;
}

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

DamagedCheckpoint damaged_manifest(const fs::path& checkpoint) {
  return DamagedCheckpoint((checkpoint / "manifest.json").string() + ": is damaged");
}

ordered_json facts_of(const Checksum& file) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", file.crc32());
  return {{"bytes", file.bytes()}, {"crc32", text}};
}

std::optional<fs::path> latest_below(const fs::path& folder) {
  for (const char* below : {"latest", "checkpoints/latest"}) {
    std::error_code error;
    if (const auto path = folder / below; fs::exists(path / "manifest.json", error)) return path;
  }
  return std::nullopt;
}

ordered_json read_manifest(const fs::path& checkpoint) {
  const auto path = checkpoint / "manifest.json";
  std::string text;
  try {
    read_blocks(path, [&](auto bytes) { text.append(bytes.begin(), bytes.end()); });
  } catch (const DamagedCheckpoint&) {
    const auto meant = latest_below(checkpoint);
    std::error_code error;
    throw DamagedCheckpoint(checkpoint.string() + ": is no checkpoint" +
                            (meant ? "; did you mean " + meant->string() + "?"
                             : fs::exists(checkpoint, error) ? ": it has no manifest.json"
                                                             : ": there is no such folder"));
  }
  auto manifest = parse_foreign<ordered_json>(text);
  if (!manifest.is_object() || !manifest.contains("format_version"))
    throw damaged_manifest(checkpoint);
  if (manifest["format_version"] != manifest_version)
    throw UserError(path.string() + ": format version " + shown_value(manifest["format_version"]) +
                    "; this program reads " + std::to_string(manifest_version));
  return manifest;
}

void verify_files(const fs::path& checkpoint, const ordered_json& manifest,
                  std::string_view beginning) try {
  if (!manifest.at("files").is_object()) throw damaged_manifest(checkpoint);
  for (const auto& [name, facts] : manifest.at("files").items()) {
    if (!name.starts_with(beginning)) continue;
    const auto found = facts_of(checksum_of(checkpoint / name));
    for (const char* key : {"bytes", "crc32"})
      if (found.at(key) != facts.at(key))
        throw DamagedCheckpoint((checkpoint / name).string() +
                                ": is damaged: its checksum differs from the manifest's");
  }
} catch (const nlohmann::json::exception&) {
  throw damaged_manifest(checkpoint);
}

Provenance provenance_in(const ordered_json& manifest) {
  return {manifest.value("recipe", ""), manifest.value("network", Lines{}),
          manifest.value("class_names", Lines{}), manifest.value("device", ""),
          manifest.value("precision", "")};
}

Provenance read_provenance(const std::filesystem::path& path) try {
  if (is_dcp_folder(path)) return {};
  if (std::filesystem::is_directory(path)) return provenance_in(read_manifest(path));
  if (path.extension() != ".safetensors") return {};
  const auto metadata = read_safetensors_metadata(path);
  const auto recipe = metadata.find("recipe");
  return {recipe == metadata.end() ? "" : recipe->second, lines_in(metadata, "network", path),
          lines_in(metadata, "class_names", path)};
} catch (const nlohmann::json::exception&) {
  throw damaged_manifest(path);
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
