#include "composer/checkpoint/weights.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/name_pattern.h"
#include "base/text.h"
#include "composer/checkpoint/checkpoint.h"
#include "composer/checkpoint/dcp.h"
#include "composer/checkpoint/torch_file.h"

namespace composer {
namespace {

/// Metadata of a .safetensors file: {"a library's name": {"name": "ours", "shape": [ours]}}
constexpr const char* own_names = "own_names";

bool starts_like_zip(const std::filesystem::path& path) {
  char magic[2] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return magic[0] == 'P' && magic[1] == 'K';
}

/// The files of weights of a checkpoint: one, or several if ranks divided the weights. UserError if
/// files are missing.
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

bool begins_with_module(const TensorMap::value_type& item) {
  return item.first.starts_with("module.");
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

/// The names of the model's tensors, here and in timm.
std::set<std::string> known_names(const Model& model) {
  std::set<std::string> known;
  const auto names = model.names_in("timm");
  for (const auto& [name, tensor] : model_tensors(model)) {
    known.insert(name);
    if (names) known.insert(names->name_of(name));
  }
  return known;
}

/// The number of known names behind each prefix that ends at a dot, and behind "".
std::map<std::string, size_t> known_behind(const TensorMap& tensors,
                                           const std::set<std::string>& known,
                                           const std::vector<std::string>& ignore) {
  std::map<std::string, size_t> counts;
  for (const auto& [name, tensor] : tensors) {
    if (fits_any(name, ignore)) continue;
    for (size_t begin = 0;; ++begin) {
      if (known.contains(name.substr(begin))) ++counts[name.substr(0, begin)];
      begin = name.find('.', begin);
      if (begin == std::string::npos) break;
    }
  }
  return counts;
}

/// The prefix to remove; "" if names stay as they are.
std::string prefix_to_take_off(const std::map<std::string, size_t>& counts, size_t in_model,
                               const std::string& source) {
  std::vector<std::string> best;
  size_t most = (in_model + 1) / 2;
  for (const auto& [prefix, count] : counts) {
    if (count > most) best.clear(), most = count;
    if (count == most) best.push_back(prefix);
  }
  if (best.empty()) return "";
  if (const auto average = std::ranges::find_if(best, names_average); average != best.end())
    return *average;
  if (best.size() > 1 && !best[0].empty())
    throw UserError(source + ": holds weights of the network under '" + joined(best, "' and '") +
                    "'; save only the tensors of one of them, or in a training name the others "
                    "in load_ignore, such as '" +
                    best[1] + "*'");
  return best[0];
}

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
    const bool narrow = tensor.element_size() == 1;  // isfinite() does not support such types
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
  // AveragedModel keeps its count beside the module's weights.
  if (std::ranges::count_if(tensors, begins_with_module) == std::ssize(tensors) - 1)
    tensors.erase("n_averaged");
  for (const char* prefix : {"_orig_mod.", "module.", "module.", "_orig_mod."})
    tensors = without_prefix(std::move(tensors), prefix);
  return tensors;
}

TensorMap in_names_of(const LibraryNames& names, const TensorMap& tensors) {
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

std::map<std::string, std::string> names_metadata(const LibraryNames& names,
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

TensorMap without_wrapper(const Model& model, TensorMap tensors, const std::string& source,
                          const std::vector<std::string>& ignore) {
  const auto known = known_names(model);
  const auto prefix =
      prefix_to_take_off(known_behind(tensors, known, ignore), model_tensors(model).size(), source);
  if (prefix.empty()) return tensors;
  TensorMap own, others;
  for (auto& [name, tensor] : tensors)
    if (name.starts_with(prefix) && !fits_any(name, ignore))
      own.emplace(name.substr(prefix.size()), std::move(tensor));
    else
      others.emplace(name, std::move(tensor));
  std::vector<std::string> left_out;
  for (const auto& [name, tensor] : others)
    if (fits_any(name, ignore) || !known.contains(name) || !own.emplace(name, tensor).second)
      left_out.push_back(name);
  log::info_once(source + ": takes '" + prefix + "' off the names of its tensors" +
                 (names_average(prefix) ? ", the averaged ones, as for evaluation" : "") +
                 (left_out.empty() ? "" : "; leaves out " + first_few(std::move(left_out))));
  return own;
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
  const auto unwrapped = without_wrapper(model, given, source, rules.ignore);
  const auto tensors = in_own_names(model, unwrapped);
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
        (names && !unwrapped.contains(name) && fits_any(names->name_of(name), rules.ignore))) {
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
  const auto is_taken = [&](const auto& item) {
    return !item.first.ends_with("num_batches_tracked") && tensors.contains(item.first) &&
           !std::ranges::binary_search(unloaded.fresh, item.first);
  };
  if (std::ranges::none_of(targets, is_taken))
    problems.push_back(source + ": nothing of it would be loaded" +
                       (given.empty() ? ""
                                      : ": its tensors are named like " + given.begin()->first +
                                            ", the model's like " + targets.begin()->first));
  if (!problems.empty()) {
    const bool last_alone =
        !last_layer.empty() && std::ranges::all_of(misshaped_names, [&](const auto& name) {
          return fits(name, last_layer);
        });
    problems.back() += last_alone ? hint : "; do model_name and the algorithms fit the file?";
    throw UserError(problems);
  }

  if (names && !names->difference.empty() && std::ranges::any_of(tensors, [&](const auto& item) {
        return !unwrapped.contains(item.first);
      }))
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
  std::error_code none;
  if (!std::filesystem::exists(path / "manifest.json", none)) {
    assign_weights(model, read_weights(path), path.string(), rules);
    return;
  }
  const auto checkpoint = load_checkpoint(path, /*with_optimizer=*/false);
  const auto weights = weights_of_evaluation(checkpoint);
  if (weights != "model")
    log::info(
        path.string() + ": the weights are the average that " + weights +
        " keeps, as for evaluation; `composer export --weights model` writes the model's own");
  assign_weights(model, weights_of(checkpoint, weights, path.string()), path.string(), rules);
}

}  // namespace composer
