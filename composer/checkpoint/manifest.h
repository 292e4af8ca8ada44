// A checkpoint's manifest.json: what its files hold, their sizes and checksums.
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

/// A file of the checkpoint is missing, cut off or altered. What cannot be taken for another reason
/// (another format version, a file that cannot be read) is a plain UserError.
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

/// Reads the files that the manifest names, those whose names begin with `beginning`. Throws when
/// one is not as it says.
void verify_files(const std::filesystem::path& checkpoint, const nlohmann::ordered_json& manifest,
                  std::string_view beginning = "");

/// {"bytes": ..., "crc32": ...} of a file, as the manifest has it.
nlohmann::ordered_json facts_of(const Checksum& file);

/// Each part is empty where it is not known.
struct Provenance {
  std::string recipe;                    ///< resolved, YAML
  std::vector<std::string> network;      ///< nn/network/outline.h
  std::vector<std::string> class_names;  ///< in order of their index
  std::string device{}, precision{};     ///< that it was trained on and in; of checkpoints alone
};

/// Of a checkpoint folder or a .safetensors file that was exported from one; other files tell
/// nothing. Reads no tensors. UserError for a manifest or header that cannot be read.
Provenance read_provenance(const std::filesystem::path& path);

/// As a .safetensors file holds it.
std::map<std::string, std::string> to_metadata(const Provenance& provenance);

}  // namespace composer
