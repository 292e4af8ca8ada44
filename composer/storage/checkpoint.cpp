#include "composer/storage/checkpoint.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "composer/error.h"
#include "composer/logging/json_number.h"
#include "composer/logging/log.h"
#include "composer/storage/atomic_file.h"
#include "composer/storage/manifest.h"
#include "composer/storage/safetensors.h"
#include "composer/version.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* optimizer_file = "optimizer-00001-of-00001.safetensors";
constexpr const char* state_file = "state-00001-of-00001.safetensors";
constexpr const char* tensor_files[] = {model_file, optimizer_file, state_file};

ordered_json to_json(const Timestamp& time) {
  return {{"epoch", time.epoch},
          {"batch", time.batch},
          {"sample", time.sample},
          {"batch_in_epoch", time.batch_in_epoch},
          {"sample_in_epoch", time.sample_in_epoch},
          {"seconds", time.seconds}};
}

Timestamp time_from(const ordered_json& json) {
  return {json.at("epoch"),          json.at("batch"),           json.at("sample"),
          json.at("batch_in_epoch"), json.at("sample_in_epoch"), json.at("seconds")};
}

/// Told apart from strings that say the same: {"double": "NaN"}.
ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return {{"double", json_number(value)}};
}

/// "inf" and "-inf" stand in manifests of earlier builds.
double number_from(const ordered_json& json) {
  const auto& word = json.at("double");
  const double infinity = std::numeric_limits<double>::infinity();
  return word == "inf" ? infinity : word == "-inf" ? -infinity : number_of(word);
}

ordered_json to_json(const std::map<std::string, StateDict::Value>& values) {
  auto json = ordered_json::object();
  for (const auto& [name, value] : values) {
    if (const auto* real = std::get_if<double>(&value))
      json[name] = number(*real);
    else
      std::visit([&, key = name](const auto& held) { json[key] = held; }, value);
  }
  return json;
}

std::map<std::string, StateDict::Value> values_from(const ordered_json& json) {
  std::map<std::string, StateDict::Value> values;
  for (const auto& [name, value] : json.items()) {
    if (value.is_boolean())
      values[name] = value.get<bool>();
    else if (value.is_number_integer())
      values[name] = value.get<int64_t>();
    else if (value.is_number())
      values[name] = value.get<double>();
    else if (value.is_object())
      values[name] = number_from(value);
    else
      values[name] = value.get<std::string>();
  }
  return values;
}

ordered_json build_description() {
  return {{"composer", version}, {"libtorch", TORCH_VERSION}, {"compiler", __VERSION__}};
}

/// Part "algorithms.ema" and its tensor "conv1.weight" are stored as "algorithms.ema/conv1.weight".
std::map<std::string, at::Tensor> joined_tensors(const std::map<std::string, StateDict>& parts) {
  std::map<std::string, at::Tensor> all;
  for (const auto& [part, state] : parts)
    for (const auto& [name, tensor] : state.tensors) all[part + "/" + name] = tensor;
  return all;
}

ordered_json manifest_of(const Checkpoint& checkpoint) {
  ordered_json parts = ordered_json::object();
  for (const auto& [name, state] : checkpoint.parts) parts[name] = to_json(state.values);
  return {{"format_version", manifest_version},
          {"time", to_json(checkpoint.time)},
          {"evaluated_batch", checkpoint.evaluated_batch},
          {"seed", checkpoint.seed},
          {"grad_accum", checkpoint.grad_accum},
          {"train_batch_size", checkpoint.train_batch_size},
          {"batches_per_epoch", checkpoint.batches_per_epoch},
          {"samples_per_epoch", checkpoint.samples_per_epoch},
          {"loader", {{"epoch", checkpoint.time.epoch}, {"batch", checkpoint.time.batch_in_epoch}}},
          {"optimizer", to_json(checkpoint.optimizer.values)},
          {"parts", parts},
          {"build", build_description()},
          {"compute_threads", at::get_num_threads()},
          {"instruction_set", at::get_cpu_capability()},
          {"device", checkpoint.device},
          {"recipe", checkpoint.recipe},
          {"network", checkpoint.network},
          {"class_names", checkpoint.class_names}};
}

/// What is damaged about the checkpoint; empty for a whole one. UserError when that cannot be told.
std::string damage_of(const fs::path& path) {
  try {
    verify_files(path, read_manifest(path));
    return "";
  } catch (const DamagedCheckpoint& damage) {
    return damage.what();
  }
}

/// Where a folder stands while it is written or deleted.
fs::path hidden(const fs::path& path, std::string_view ending) {
  auto name = path.filename();
  name += ending;
  return path.parent_path() / fs::path(".").concat(name.native());
}

constexpr std::string_view set_aside = "damaged-", replaced = ".replaced";

struct NamedFolder {
  int64_t batch, epoch;
  fs::path path;
  auto operator<=>(const NamedFolder&) const = default;
};

/// The checkpoint folders in `folder` whose name is `prefix` and a checkpoint's, newest first. None
/// where there is no such folder; UserError when it cannot be read.
std::vector<fs::path> checkpoint_folders(const fs::path& folder, std::string_view prefix = "") {
  std::vector<NamedFolder> found;
  if (!fs::exists(folder)) return {};
  for (const auto& entry : fs::directory_iterator(folder)) {
    long epoch = 0, batch = 0;
    int length = 0;
    auto name = entry.path().filename().string();
    if (!name.starts_with(prefix) || entry.is_symlink()) continue;
    name.erase(0, prefix.size());
    if (std::sscanf(name.c_str(), "ep%ld-ba%ld%n", &epoch, &batch, &length) == 2 &&
        length == static_cast<int>(name.size()))
      found.push_back({batch, epoch, entry.path()});
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  for (auto& [batch, epoch, path] : found) paths.push_back(std::move(path));
  return paths;
}

void put_aside(const fs::path& path, const std::string& damage) {
  const auto aside = path.parent_path() / fs::path(set_aside).concat(path.filename().native());
  fs::remove_all(aside);
  fs::rename(path, aside);
  log::warn(damage + "; set aside as " + aside.string());
}

/// What a kill in the middle of a save or a deletion left behind.
void remove_leftovers(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(".ep") && (name.ends_with(".tmp") || name.ends_with(".old")))
      fs::remove_all(entry.path());
  }
}

void point(const fs::path& link, const std::string& name) {
  const auto beside = hidden(link, "");
  fs::remove(beside);
  fs::create_directory_symlink(name, beside);
  fs::rename(beside, link);
  flush_folder(link.parent_path());
}

/// Puts the folder `beside` in the place of `path`, at no instant of which there is none; where the
/// file system can do that.
void replace_folder(const fs::path& beside, const fs::path& path) {
  if (renameat2(AT_FDCWD, beside.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
    const auto old = hidden(path, replaced);
    fs::rename(path, old);
    fs::rename(beside, path);
    fs::remove_all(old);
  }
  fs::remove_all(beside);
}

/// What a kill between the two renames of replace_folder took away.
void bring_back(const fs::path& folder) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(".ep") || !name.ends_with(replaced)) continue;
    const auto path = folder / name.substr(1, name.size() - 1 - replaced.size());
    fs::exists(path) ? static_cast<void>(fs::remove_all(entry.path()))
                     : fs::rename(entry.path(), path);
  }
}

void write_files(const fs::path& path, const Checkpoint& checkpoint) {
  write_safetensors(path / model_file, checkpoint.model);
  write_safetensors(path / optimizer_file, checkpoint.optimizer.tensors);
  write_safetensors(path / state_file, joined_tensors(checkpoint.parts));

  auto manifest = manifest_of(checkpoint);
  for (const char* name : tensor_files) manifest["files"][name] = facts_of(path / name);
  manifest["tensors"] = ordered_json::object();
  const auto index = [&](const auto& tensors, const char* file) {
    for (const auto& [name, tensor] : tensors)
      manifest["tensors"][file][name] = tensor.sizes().vec();
  };
  index(checkpoint.model, model_file);
  index(checkpoint.optimizer.tensors, optimizer_file);
  index(joined_tensors(checkpoint.parts), state_file);

  write_whole(path / "manifest.json",
              manifest.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

/// A whole one is left as it is, unless it is to be replaced. Leaves nothing when it fails.
void write_folder(const fs::path& path, const Checkpoint& checkpoint, bool replace) {
  const bool whole = fs::exists(path) && damage_of(path).empty();
  if (whole && !replace) return;
  const auto beside = hidden(path, ".tmp");
  try {
    if (!whole) fs::remove_all(path);
    fs::create_directory(beside);
    write_files(beside, checkpoint);
    whole ? replace_folder(beside, path) : fs::rename(beside, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(beside, ignored);
    throw;
  }
}

/// What of the machine and build is not as it was when the checkpoint was made, one line each.
std::vector<std::string> differences(const ordered_json& manifest) {
  std::vector<std::string> lines;
  const auto differs = [&](const char* key, const ordered_json& here, const char* what) {
    if (manifest.at(key) == here) return;
    lines.push_back("was written with " + std::string(what) + " " + manifest.at(key).dump() +
                    ", this is " + here.dump());
  };
  differs("compute_threads", at::get_num_threads(), "compute threads");
  differs("instruction_set", at::get_cpu_capability(), "instruction set");
  differs("build", build_description(), "build");
  return lines;
}

}  // namespace

std::string checkpoint_name(const Timestamp& time) {
  return "ep" + std::to_string(time.epoch) + "-ba" + std::to_string(time.batch);
}

fs::path save_checkpoint(const fs::path& folder, const Checkpoint& checkpoint, bool replace) {
  const auto name = checkpoint_name(checkpoint.time);
  const auto path = folder / name;
  try {
    fs::create_directories(folder);
    bring_back(folder);
    remove_leftovers(folder);
    write_folder(path, checkpoint, replace);
    point(folder / "latest", name);
  } catch (const fs::filesystem_error& failure) {
    throw RunError("the checkpoint cannot be written: " + std::string(failure.what()));
  }
  return path;
}

void mark_best_checkpoint(const fs::path& folder, const std::string& name) try {
  point(folder / "best", name);
} catch (const fs::filesystem_error& failure) {
  throw RunError("the best checkpoint cannot be marked: " + std::string(failure.what()));
}

void keep_newest_checkpoints(const fs::path& folder, int64_t count) {
  if (count < 0) return;
  const auto paths = checkpoint_folders(folder);
  std::error_code none;
  const auto best = fs::read_symlink(folder / "best", none);
  for (size_t i = static_cast<size_t>(std::max<int64_t>(count, 1)); i < paths.size(); ++i) {
    if (paths[i].filename() == best) continue;
    const auto beside = hidden(paths[i], ".old");
    fs::rename(paths[i], beside);
    fs::remove_all(beside);
  }
}

Checkpoint load_checkpoint(const fs::path& path) try {
  const auto manifest = read_manifest(path);
  verify_files(path, manifest);

  Checkpoint checkpoint;
  checkpoint.differences = differences(manifest);
  checkpoint.time = time_from(manifest.at("time"));
  checkpoint.evaluated_batch = manifest.at("evaluated_batch");
  checkpoint.seed = manifest.at("seed");
  checkpoint.grad_accum = manifest.at("grad_accum");
  checkpoint.train_batch_size = manifest.at("train_batch_size");
  checkpoint.batches_per_epoch = manifest.at("batches_per_epoch");
  checkpoint.samples_per_epoch = manifest.at("samples_per_epoch");
  checkpoint.recipe = manifest.at("recipe");
  checkpoint.device = manifest.value("device", "");
  checkpoint.network = manifest.value("network", std::vector<std::string>{});
  checkpoint.class_names = manifest.value("class_names", std::vector<std::string>{});
  checkpoint.model = read_safetensors(path / model_file);
  checkpoint.optimizer.tensors = read_safetensors(path / optimizer_file);
  checkpoint.optimizer.values = values_from(manifest.at("optimizer"));
  for (const auto& [name, values] : manifest.at("parts").items())
    checkpoint.parts[name].values = values_from(values);
  for (auto& [name, tensor] : read_safetensors(path / state_file)) {
    const auto slash = name.find('/');
    checkpoint.parts[name.substr(0, slash)].tensors[name.substr(slash + 1)] = tensor;
  }
  return checkpoint;
} catch (const nlohmann::json::exception&) {
  throw DamagedCheckpoint((path / "manifest.json").string() + ": is damaged");
}

std::optional<fs::path> newest_checkpoint(const fs::path& folder) try {
  bring_back(folder);
  constexpr const char* advice = "give another --run_name to start afresh";
  std::vector<std::pair<fs::path, std::string>> damaged;
  for (const auto& path : checkpoint_folders(folder)) {
    try {
      auto damage = damage_of(path);
      if (!damage.empty()) {
        damaged.emplace_back(path, std::move(damage));
        continue;
      }
    } catch (const UserError& problem) {
      throw UserError("autoresume: a checkpoint cannot be used, and was left as it is: " +
                      std::string(problem.what()) + "; mend that, or " + advice);
    }
    for (const auto& [other, damage] : damaged) put_aside(other, damage);
    return path;
  }
  for (const auto& path : checkpoint_folders(folder, set_aside))
    damaged.emplace_back(path, path.string() + ": was set aside as damaged");
  if (damaged.empty()) return std::nullopt;
  std::vector<std::string> problems{"autoresume: no checkpoint in " + folder.string() +
                                    " is whole; bring one back from a copy, or " + advice};
  for (auto& [path, damage] : damaged) problems.push_back(std::move(damage));
  throw UserError(problems);
} catch (const fs::filesystem_error& failure) {
  throw UserError("autoresume: " + folder.string() + ": " + failure.code().message());
}

std::string describe_checkpoint(const fs::path& path) {
  auto manifest = read_manifest(path);
  std::ostringstream text;
  const auto tensors = manifest["tensors"];
  for (const auto& [key, value] : manifest.items())
    if (key != "tensors" && key != "recipe" && key != "network")
      text << key << ": " << value.dump() << '\n';
  if (manifest["recipe"] == "") text << "recipe: none: made from C++; eval and predict need -f\n";
  for (const auto& [file, names] : tensors.items()) {
    text << file << ":\n";
    for (const auto& [name, shape] : names.items())
      text << "  " << name << " " << shape.dump() << '\n';
  }
  return text.str();
}

}  // namespace composer
