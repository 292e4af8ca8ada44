#include "composer/storage/weights.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/name_pattern.h"
#include "composer/storage/checkpoint.h"
#include "composer/storage/dcp.h"
#include "composer/storage/manifest.h"
#include "composer/storage/torch_file.h"
#include "composer/text.h"

namespace composer {
namespace {

/// Metadata of a .safetensors file: {"a library's name": {"name": "ours", "shape": [ours]}}
constexpr const char* own_names = "own_names";

bool starts_like_zip(const std::filesystem::path& path) {
  char magic[2] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return magic[0] == 'P' && magic[1] == 'K';
}

/// Of a checkpoint: one, or those of the ranks that shared the weights out. UserError where there
/// are none, or not all.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (const auto name = entry.path().filename().string();
        name.starts_with(model_files) && name.ends_with(".safetensors"))
      files.push_back(entry.path());
  if (files.empty())
    throw UserError(folder.string() + ": not a checkpoint: it holds no " + model_file);
  std::ranges::sort(files);
  const auto name = files[0].filename().string();
  const auto of = name.find("-of-");
  const auto count = of == std::string::npos ? 0 : std::atoll(name.c_str() + of + 4);
  if (count != std::ssize(files))
    throw UserError(folder.string() + ": holds " + std::to_string(files.size()) + " of " +
                    std::to_string(count) + " files of weights (" + name + ", ...)");
  return files;
}

TensorMap without_prefix(TensorMap tensors, const std::string& prefix) {
  const auto has_prefix = [&](const auto& item) { return item.first.starts_with(prefix); };
  if (tensors.empty() || !std::all_of(tensors.begin(), tensors.end(), has_prefix)) return tensors;
  TensorMap stripped;
  for (auto& [name, tensor] : tensors)
    stripped.emplace(name.substr(prefix.size()), std::move(tensor));
  return stripped;
}

/// "3 missing (a, b, c)"; long lists are cut.
class NameList {
 public:
  void add(const std::string& item) {
    if (++count_ <= shown) text_ += (count_ == 1 ? "" : ", ") + item;
  }
  bool empty() const { return count_ == 0; }
  std::string str() const {
    return std::to_string(count_) + " (" + text_ + (count_ > shown ? ", ..." : "") + ")";
  }

 private:
  static constexpr int64_t shown = 4;
  int64_t count_ = 0;
  std::string text_;
};

}  // namespace

TensorMap model_tensors(const torch::nn::Module& model) {
  TensorMap tensors;
  for (const auto& item : model.named_parameters()) tensors.emplace(item.key(), item.value());
  for (const auto& item : model.named_buffers()) tensors.emplace(item.key(), item.value());
  return tensors;
}

std::vector<std::string> not_finite(const TensorMap& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<std::string> names;
  std::vector<at::Tensor> finite;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.is_floating_point() || tensor.numel() == 0) continue;
    names.push_back(name);
    const bool narrow = tensor.element_size() == 1;  // for which there is no isfinite
    finite.push_back((narrow ? tensor.to(at::kFloat) : tensor).isfinite().all());
  }
  if (names.empty()) return {};
  const auto all = at::stack(finite).cpu();
  std::vector<std::string> bad;
  for (size_t i = 0; i < names.size(); ++i)
    if (!all.const_data_ptr<bool>()[i]) bad.push_back(names[i]);
  return bad;
}

std::filesystem::path weights_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto file = path / exported_weights;
  const bool exported = std::filesystem::is_directory(path, error) &&
                        !std::filesystem::exists(path / "manifest.json", error) &&
                        std::filesystem::exists(file, error);
  return exported ? file : path;
}

bool verify_export(const std::filesystem::path& folder, std::string_view beginning) {
  std::ifstream in(folder / "network.json");
  const auto json = nlohmann::ordered_json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("files")) return false;
  verify_files(folder, json, beginning);
  return true;
}

TensorMap read_weights(const std::filesystem::path& path) {
  std::error_code error;
  const bool shards = is_dcp_folder(path);
  if (std::filesystem::is_directory(path, error) && !shards) {
    const auto files = weight_files(path);
    if (std::filesystem::exists(path / "manifest.json", error))
      verify_files(path, read_manifest(path), model_files);
    TensorMap all;
    for (const auto& file : files) all.merge(read_safetensors(file));
    return all;
  }
  if (path.filename() == exported_weights) verify_export(path.parent_path(), exported_weights);
  const auto kind = path.extension();
  if (kind == ".onnx")
    throw UserError(path.string() +
                    ": is an ONNX file; weights are read from checkpoints, exported folders, "
                    ".safetensors and .pth files");
  const bool pytorch = kind == ".pth" || kind == ".pt" || kind == ".ckpt" || kind == ".bin";
  if (!shards && is_dcp_shard(path))
    throw UserError(path.string() +
                    ": is one shard of PyTorch's distributed checkpoint; name its folder");
  auto tensors = shards                             ? read_dcp(path)
                 : pytorch || starts_like_zip(path) ? read_torch_file(path)
                                                    : read_named_safetensors(path);
  for (const char* prefix : {"_orig_mod.", "module.", "_orig_mod."})
    tensors = without_prefix(std::move(tensors), prefix);
  return tensors;
}

TensorMap in_names_of(const PeerNames& names, const TensorMap& tensors) {
  TensorMap named;
  for (const auto& [name, tensor] : tensors) {
    const auto shape = names.shapes.find(name);
    const auto theirs = names.name_of(name);
    if (!named.emplace(theirs, shape == names.shapes.end() ? tensor : tensor.reshape(shape->second))
             .second)
      throw std::logic_error("two tensors would be named " + theirs);
  }
  return named;
}

std::map<std::string, std::string> names_metadata(const PeerNames& names,
                                                  const TensorMap& tensors) {
  auto own = nlohmann::ordered_json::object();
  for (const auto& [name, tensor] : tensors)
    if (const auto theirs = names.name_of(name); theirs != name || names.shapes.contains(name))
      own[theirs] = {{"name", name}, {"shape", tensor.sizes().vec()}};
  if (own.empty()) return {};
  return {{own_names, own.dump()}};
}

TensorMap read_named_safetensors(const std::filesystem::path& path) {
  auto tensors = read_safetensors(path);
  const auto metadata = read_safetensors_metadata(path);
  const auto told = metadata.find(own_names);
  if (told == metadata.end()) return tensors;
  const auto damaged = [&] {
    return UserError(path.string() + ": its metadata '" + own_names + "' is damaged");
  };
  TensorMap named;
  try {
    const auto own = nlohmann::json::parse(told->second);
    for (const auto& [theirs, tensor] : tensors)
      if (const auto found = own.find(theirs); found == own.end()) {
        named.emplace(theirs, tensor);
      } else {
        const auto shape = found->at("shape").get<std::vector<int64_t>>();
        const bool fits = c10::multiply_integers(shape) == tensor.numel();
        if (!named
                 .emplace(found->at("name").get<std::string>(),
                          fits ? tensor.reshape(shape) : tensor)
                 .second)
          throw damaged();
      }
  } catch (const nlohmann::json::exception&) {
    throw damaged();
  }
  return named;
}

TensorMap in_own_names(const Model& model, TensorMap tensors) {
  const auto names = model.names_in("timm");
  if (!names) return tensors;
  const auto targets = model_tensors(model);
  for (const auto& [name, target] : targets) {
    const auto theirs = names->name_of(name);
    if (targets.contains(theirs) || tensors.contains(name)) continue;
    auto given = tensors.extract(theirs);
    if (given.empty()) continue;
    given.key() = name;
    if (given.mapped().numel() == target.numel())
      given.mapped() = given.mapped().reshape(target.sizes());
    tensors.insert(std::move(given));
  }
  return tensors;
}

Unloaded assign_weights(Model& model, const TensorMap& given, const std::string& source,
                        const LoadRules& rules) {
  const auto tensors = in_own_names(model, given);
  NameList missing, unexpected, misshaped, integers;
  std::string last_layer, hint;
  std::vector<std::string> misshaped_names;
  std::vector<std::string> problems;
  Unloaded unloaded;
  auto targets = model_tensors(model);
  const auto names = model.names_in("timm");
  for (const auto& pattern : rules.ignore) {
    const auto meant = [&](const auto& item) { return fits(item.first, pattern); };
    if (std::ranges::any_of(targets, meant) || std::ranges::any_of(given, meant) ||
        std::ranges::any_of(tensors, meant))
      continue;
    std::vector<std::string> of_model;
    for (const auto& [name, target] : targets) of_model.push_back(name);
    problems.push_back("load_ignore: '" + pattern + "' fits no tensor of the model or of " +
                       source + layer_hint(pattern, of_model) + "; the model's are named like " +
                       of_model.front());
  }
  for (const auto& [name, target] : targets) {
    const auto found = tensors.find(name);
    if (fits_any(name, rules.ignore) ||
        (names && !given.contains(name) && fits_any(names->name_of(name), rules.ignore))) {
      unloaded.fresh.push_back(name);
    } else if (found == tensors.end()) {
      if (name.ends_with("num_batches_tracked")) continue;
      rules.strict ? missing.add(name) : unloaded.fresh.push_back(name);
    } else if (found->second.sizes() != target.sizes()) {
      misshaped.add(name + ": " + c10::str(found->second.sizes()) + " in the file, " +
                    c10::str(target.sizes()) + " in the model");
      misshaped_names.push_back(name);
      if (target.dim() == 2 && found->second.dim() == 2 && target.size(0) == model.num_classes()) {
        last_layer = name.substr(0, name.rfind('.')) + ".*";
        hint = "; was it trained with num_classes " + std::to_string(found->second.size(0)) +
               "? --load_ignore '" + last_layer + "' starts with a new last layer";
      }
    } else if (target.is_floating_point() && !found->second.is_floating_point()) {
      integers.add(name);
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (targets.contains(name)) continue;
    if (rules.strict && !fits_any(name, rules.ignore))
      unexpected.add(name);
    else
      unloaded.left_over.push_back(name);
  }

  const auto report = [&](const std::string& what, const NameList& which) {
    if (!which.empty()) problems.push_back(source + ": " + what + ": " + which.str());
  };
  report("tensors that the model has and the file lacks", missing);
  report("tensors that the file has and the model lacks", unexpected);
  report("tensors of another shape", misshaped);
  report("tensors of integers, as those of a quantized network, which --model runs", integers);
  if (unloaded.fresh.size() == targets.size())
    problems.push_back(source + ": nothing of it would be loaded");
  if (!problems.empty()) {
    const bool last_alone =
        !last_layer.empty() && std::ranges::all_of(misshaped_names, [&](const auto& name) {
          return fits(name, last_layer);
        });
    problems.back() += last_alone ? hint : "; do model_name and the algorithms fit the file?";
    throw UserError(problems);
  }

  if (names && !names->difference.empty() &&
      std::ranges::any_of(tensors, [&](const auto& item) { return !given.contains(item.first); }))
    log::warn(source + ": has timm's names; timm's " + names->difference);
  const at::NoGradGuard no_grad;
  for (auto& [name, target] : targets) {
    if (std::ranges::binary_search(unloaded.fresh, name)) continue;
    const auto found = tensors.find(name);
    if (found == tensors.end())
      target.zero_();
    else
      target.copy_(found->second);
  }
  if (!unloaded.fresh.empty())
    (rules.strict ? log::info : log::warn)(
        source + ": not taken from it, stays fresh: " + joined(unloaded.fresh));
  if (!unloaded.left_over.empty()) log::info(source + ": left over: " + joined(unloaded.left_over));
  return unloaded;
}

void load_weights(Model& model, const std::filesystem::path& path, const LoadRules& rules) {
  assign_weights(model, read_weights(path), path.string(), rules);
}

}  // namespace composer
