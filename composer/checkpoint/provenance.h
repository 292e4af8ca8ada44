// What weights say of where they come from.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace composer {

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
