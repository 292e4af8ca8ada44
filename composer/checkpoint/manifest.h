// A checkpoint's manifest.json, with the contents, sizes and checksums of its files; the origin of
// weights.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/checksum.h"

namespace composer {

/// A file of the checkpoint is missing, cut off or altered. Other problems (another format version,
/// a file that cannot be read) are plain UserErrors.
class DamagedCheckpoint : public UserError {
 public:
  using UserError::UserError;
};

inline constexpr int manifest_version = 1;

/// The error of a manifest.json in the folder `checkpoint` that cannot be understood.
DamagedCheckpoint damaged_manifest(const std::filesystem::path& checkpoint);

/// The newest checkpoint of a run's folder, or of the folder of its checkpoints.
std::optional<std::filesystem::path> latest_below(const std::filesystem::path& folder);

/// The manifest of the checkpoint in the folder `checkpoint`.
nlohmann::ordered_json read_manifest(const std::filesystem::path& checkpoint);

/// Verifies the checksums of the manifest's files whose names begin with `beginning`.
/// DamagedCheckpoint if one differs.
void verify_files(const std::filesystem::path& checkpoint, const nlohmann::ordered_json& manifest,
                  std::string_view beginning = "");

/// The manifest's entry of a file: {"bytes": ..., "crc32": ...}.
nlohmann::ordered_json facts_of(const Checksum& file);

/// The origin of weights. Each member is empty if it is not known.
struct Provenance {
  std::string recipe;                    ///< the resolved recipe, YAML
  std::vector<std::string> network;      ///< nn/network/outline.h
  std::vector<std::string> class_names;  ///< class names by index
  /// The type of the training's device ("cpu", "cuda") and its resolved precision ("amp_bf16");
  /// known for checkpoints only.
  std::string device{}, precision{};
};

/// The origin in a checkpoint's manifest.
Provenance provenance_in(const nlohmann::ordered_json& manifest);

/// The origin of a checkpoint folder, or of a .safetensors file exported from one; empty for other
/// files. Reads no tensors. UserError for a manifest or header that cannot be read.
Provenance read_provenance(const std::filesystem::path& path);

/// The metadata of a .safetensors file with this origin.
std::map<std::string, std::string> to_metadata(const Provenance& provenance);

}  // namespace composer
