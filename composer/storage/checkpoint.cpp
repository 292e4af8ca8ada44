#include "composer/storage/checkpoint.h"

#include <ATen/Parallel.h>
#include <torch/version.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/storage/atomic_file.h"
#include "composer/storage/safetensors.h"
#include "composer/version.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int format_version = 1;
constexpr const char* optimizer_file = "optimizer-00001-of-00001.safetensors";
constexpr const char* state_file = "state-00001-of-00001.safetensors";
constexpr const char* tensor_files[] = {model_file, optimizer_file, state_file};

std::string checksum(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(path.string() + ": cannot be read");
  uLong crc = crc32(0, nullptr, 0);
  std::vector<char> block(1 << 20);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0)
    crc =
        crc32(crc, reinterpret_cast<const Bytef*>(block.data()), static_cast<uInt>(file.gcount()));
  char text[16];
  std::snprintf(text, sizeof text, "%08lx", crc);
  return text;
}

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

/// JSON has no number for NaN and the infinities: {"double": "nan"}, "inf" or "-inf".
ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return {{"double", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}};
}

double number_from(const ordered_json& json) {
  const std::string text = json.at("double");
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "inf" ? infinity : -infinity;
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
  return {{"format_version", format_version},
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
          {"recipe", checkpoint.recipe}};
}

ordered_json read_manifest(const fs::path& path) {
  std::ifstream file(path / "manifest.json");
  if (!file) throw UserError(path.string() + ": is no checkpoint: it has no manifest.json");
  auto manifest = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || !manifest.contains("format_version"))
    throw UserError((path / "manifest.json").string() + ": is damaged");
  if (manifest["format_version"] != format_version)
    throw UserError((path / "manifest.json").string() + ": format version " +
                    manifest["format_version"].dump() + "; this program reads " +
                    std::to_string(format_version));
  return manifest;
}

void verify_files(const fs::path& path, const ordered_json& manifest) {
  for (const auto& [name, facts] : manifest.at("files").items()) {
    std::error_code problem;
    const auto size = fs::file_size(path / name, problem);
    if (problem) throw UserError((path / name).string() + ": is missing");
    if (size != facts.at("bytes") || checksum(path / name) != facts.at("crc32"))
      throw UserError((path / name).string() +
                      ": is damaged: its checksum differs from the manifest's");
  }
}

/// Why the checkpoint cannot be taken; empty for a whole one.
std::string damage_of(const fs::path& path) {
  try {
    verify_files(path, read_manifest(path));
    return "";
  } catch (const UserError& damage) {
    return damage.what();
  } catch (const nlohmann::json::exception&) {
    return (path / "manifest.json").string() + ": is damaged";
  }
}

/// Where a folder stands while it is written or deleted.
fs::path hidden(const fs::path& path, const char* ending) {
  auto name = path.filename();
  name += ending;
  return path.parent_path() / fs::path(".").concat(name.native());
}

/// The checkpoint folders in `folder`, newest first.
std::vector<fs::path> checkpoint_folders(const fs::path& folder) {
  std::vector<std::pair<std::pair<int64_t, int64_t>, fs::path>> found;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    long epoch = 0, batch = 0;
    int length = 0;
    const auto name = entry.path().filename().string();
    if (std::sscanf(name.c_str(), "ep%ld-ba%ld%n", &epoch, &batch, &length) == 2 &&
        length == static_cast<int>(name.size()) && !entry.is_symlink())
      found.push_back({{batch, epoch}, entry.path()});
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

/// What a kill in the middle of a save or a deletion left behind.
void remove_leftovers(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(".ep") && (name.ends_with(".tmp") || name.ends_with(".old")))
      fs::remove_all(entry.path());
  }
}

void point_latest_to(const fs::path& folder, const std::string& name) {
  const auto beside = folder / ".latest";
  fs::remove(beside);
  fs::create_directory_symlink(name, beside);
  fs::rename(beside, folder / "latest");
  flush_folder(folder);
}

void write_files(const fs::path& path, const Checkpoint& checkpoint) {
  write_safetensors(path / model_file, checkpoint.model);
  write_safetensors(path / optimizer_file, checkpoint.optimizer.tensors);
  write_safetensors(path / state_file, joined_tensors(checkpoint.parts));

  auto manifest = manifest_of(checkpoint);
  for (const char* name : tensor_files)
    manifest["files"][name] = {{"bytes", fs::file_size(path / name)},
                               {"crc32", checksum(path / name)}};
  manifest["tensors"] = ordered_json::object();
  const auto index = [&](const auto& tensors, const char* file) {
    for (const auto& [name, tensor] : tensors)
      manifest["tensors"][file][name] = tensor.sizes().vec();
  };
  index(checkpoint.model, model_file);
  index(checkpoint.optimizer.tensors, optimizer_file);
  index(joined_tensors(checkpoint.parts), state_file);

  write_whole(path / "manifest.json", manifest.dump(1) + "\n");
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

fs::path save_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
  const auto name = checkpoint_name(checkpoint.time);
  const auto path = folder / name, beside = hidden(path, ".tmp");
  try {
    fs::create_directories(folder);
    remove_leftovers(folder);
    if (!fs::exists(path) || !damage_of(path).empty()) {
      fs::remove_all(path);
      fs::create_directory(beside);
      write_files(beside, checkpoint);
      fs::rename(beside, path);
    }
    point_latest_to(folder, name);
  } catch (const fs::filesystem_error& failure) {
    throw RunError("the checkpoint cannot be written: " + std::string(failure.what()));
  }
  return path;
}

void keep_newest_checkpoints(const fs::path& folder, int64_t count) {
  if (count < 0) return;
  const auto paths = checkpoint_folders(folder);
  for (size_t i = static_cast<size_t>(std::max<int64_t>(count, 1)); i < paths.size(); ++i) {
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
  throw UserError((path / "manifest.json").string() + ": is damaged");
}

std::optional<fs::path> newest_checkpoint(const fs::path& folder) {
  for (const auto& path : checkpoint_folders(folder)) {
    const auto damage = damage_of(path);
    if (damage.empty()) return path;
    const auto aside = folder / fs::path("damaged-").concat(path.filename().native());
    fs::remove_all(aside);
    fs::rename(path, aside);
    log::warn(damage + "; set aside as " + aside.string());
  }
  return std::nullopt;
}

std::string describe_checkpoint(const fs::path& path) {
  auto manifest = read_manifest(path);
  std::ostringstream text;
  const auto tensors = manifest["tensors"];
  for (const auto& [key, value] : manifest.items())
    if (key != "tensors" && key != "recipe") text << key << ": " << value.dump() << '\n';
  for (const auto& [file, names] : tensors.items()) {
    text << file << ":\n";
    for (const auto& [name, shape] : names.items())
      text << "  " << name << " " << shape.dump() << '\n';
  }
  return text.str();
}

}  // namespace composer
