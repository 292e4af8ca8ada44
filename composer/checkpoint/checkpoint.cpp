#include "composer/checkpoint/checkpoint.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/balanced.h"
#include "base/error.h"
#include "base/json_number.h"
#include "base/params/foreign_json.h"
#include "base/params/kinds.h"
#include "base/version.h"
#include "composer/checkpoint/safetensors.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* optimizer_files = "optimizer-";
constexpr const char* state_files = "state-";

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

/// Numbers that are not finite become {"double": "NaN"}, to be distinct from strings.
ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return {{"double", json_number(value)}};
}

/// Manifests of earlier builds have "inf" and "-inf".
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
StateDict joined_parts(const std::map<std::string, StateDict>& parts) {
  StateDict all;
  for (const auto& [part, state] : parts) {
    for (const auto& [name, tensor] : state.tensors) all.tensors[part + "/" + name] = tensor;
    for (const auto& [name, rank] : state.holders) all.holders[part + "/" + name] = rank;
  }
  return all;
}

double bytes_in(const TensorMap& tensors) {
  size_t sum = 0;
  for (const auto& [name, tensor] : tensors) sum += tensor.nbytes();
  return static_cast<double>(sum);
}

using Shares = std::vector<TensorMap>;  ///< tensors by rank

/// The tensors of each holder. `others` gets the tensors that all ranks have.
Shares shares_of(const TensorMap& tensors, const std::map<std::string, int64_t>& holders,
                 int64_t ranks, TensorMap& others) {
  Shares shares(static_cast<size_t>(ranks));
  for (const auto& item : tensors) {
    const auto holder = holders.find(item.first);
    (holder == holders.end() ? others : shares.at(static_cast<size_t>(holder->second)))
        .insert(item);
  }
  return shares;
}

/// The tensors of each holder. The first rank gets the tensors that all ranks have.
Shares shares_of(const TensorMap& tensors, const std::map<std::string, int64_t>& holders,
                 int64_t ranks) {
  TensorMap others;
  auto shares = shares_of(tensors, holders, ranks, others);
  shares[0].merge(others);
  return shares;
}

/// Divides the optimizer's tensors that all ranks have, so that all ranks write about as many
/// bytes, the model's included.
Shares even_shares(const StateDict& optimizer, const Shares& model) {
  TensorMap of_all;
  auto shares = shares_of(optimizer.tensors, optimizer.holders, std::ssize(model), of_all);
  std::vector<double> loads, costs;
  for (size_t rank = 0; rank < model.size(); ++rank)
    loads.push_back(bytes_in(model[rank]) + bytes_in(shares[rank]));
  for (const auto& [name, tensor] : of_all) costs.push_back(static_cast<double>(tensor.nbytes()));
  const auto writers = balanced(costs, loads);
  size_t next = 0;
  for (const auto& item : of_all) shares[writers[next++]].insert(item);
  return shares;
}

/// Adds "optimizer-00002-of-00003.safetensors" and so on, one file for each share with tensors; one
/// file of the first rank if there are no tensors.
void add_files(std::vector<TensorFile>& files, const char* prefix, Shares shares) {
  const auto full = static_cast<size_t>(
      std::ranges::count_if(shares, [](const auto& share) { return !share.empty(); }));
  for (size_t rank = 0, number = 0; rank < shares.size(); ++rank) {
    const bool nothing_to_keep = full == 0 && rank == 0;
    if (shares[rank].empty() && !nothing_to_keep) continue;
    char name[64];
    std::snprintf(name, sizeof name, "%s%05zu-of-%05zu.safetensors", prefix, ++number,
                  std::max<size_t>(full, 1));
    files.push_back({name, static_cast<int64_t>(rank), std::move(shares[rank])});
  }
}

/// Differences of this machine and build from those of the checkpoint, one line each.
std::vector<std::string> differences(const ordered_json& manifest) {
  std::vector<std::string> lines;
  const auto differs = [&](const ordered_json& there, const ordered_json& here,
                           const std::string& what) {
    if (there != here)
      lines.push_back("was written with " + what + " " + shown_value(there) + ", this is " +
                      shown_value(here));
  };
  differs(manifest.at("compute_threads"), at::get_num_threads(), "compute threads");
  differs(manifest.at("instruction_set"), at::get_cpu_capability(), "instruction set");
  const auto build = build_description();
  for (const auto& [what, here] : build.items())
    differs(manifest.at("build").value(what, ordered_json()), here, what);
  return lines;
}

/// The prefix of averaged weights in the algorithm's state; empty if it averages none.
std::string prefix_of(const std::string& algorithm) {
  const auto& algorithms = registry().algorithms;
  return algorithms.contains(algorithm) ? algorithms.find(algorithm)->average_prefix() : "";
}

/// The averages that an algorithm keeps, by the model's names; empty if it keeps none.
std::map<std::string, at::Tensor> averages_of(const Checkpoint& checkpoint,
                                              const std::string& algorithm) {
  std::map<std::string, at::Tensor> averages;
  const auto prefix = prefix_of(algorithm);
  const auto part = checkpoint.parts.find(path_of(ChoiceKey::algorithms, algorithm));
  if (prefix.empty() || part == checkpoint.parts.end()) return averages;
  for (const auto& [name, tensor] : part->second.tensors)
    if (name.starts_with(prefix)) averages[name.substr(prefix.size())] = tensor;
  return averages;
}

/// The checkpoint without tensors, and without the values of the optimizer and the parts.
Checkpoint facts_from(const ordered_json& manifest) {
  Checkpoint checkpoint;
  static_cast<Provenance&>(checkpoint) = provenance_in(manifest);
  checkpoint.differences = differences(manifest);
  checkpoint.time = time_from(manifest.at("time"));
  checkpoint.evaluated_batch = manifest.at("evaluated_batch");
  checkpoint.seed = manifest.at("seed");
  checkpoint.grad_accum = manifest.at("grad_accum");
  checkpoint.train_batch_size = manifest.at("train_batch_size");
  checkpoint.batches_per_epoch = manifest.at("batches_per_epoch");
  checkpoint.samples_per_epoch = manifest.at("samples_per_epoch");
  checkpoint.recipe = manifest.at("recipe");
  checkpoint.data = manifest.value("data", "");
  return checkpoint;
}

}  // namespace

std::string checkpoint_name(const Timestamp& time) {
  return "ep" + std::to_string(time.epoch) + "-ba" + std::to_string(time.batch);
}

std::vector<TensorFile> tensor_files(const Checkpoint& checkpoint, int64_t ranks) {
  auto model = shares_of(checkpoint.model, checkpoint.model_holders, ranks);
  auto optimizer = even_shares(checkpoint.optimizer, model);
  const auto parts = joined_parts(checkpoint.parts);
  std::vector<TensorFile> files;
  add_files(files, model_files, std::move(model));
  add_files(files, optimizer_files, std::move(optimizer));
  add_files(files, state_files, shares_of(parts.tensors, parts.holders, ranks));
  return files;
}

ordered_json manifest_of(const Checkpoint& checkpoint, const std::vector<TensorFile>& files) {
  ordered_json parts = ordered_json::object(), tensors = ordered_json::object();
  for (const auto& [name, state] : checkpoint.parts) parts[name] = to_json(state.values);
  for (const auto& file : files)
    for (const auto& [name, tensor] : file.tensors) tensors[file.name][name] = tensor.sizes().vec();
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
          {"precision", checkpoint.precision},
          {"recipe", checkpoint.recipe},
          {"network", checkpoint.network},
          {"class_names", checkpoint.class_names},
          {"data", checkpoint.data},
          {"tensors", tensors}};
}

Checkpoint read_checkpoint_facts(const fs::path& path) try {
  return facts_from(read_manifest(path));
} catch (const nlohmann::json::exception&) {
  throw damaged_manifest(path);
}

Checkpoint load_checkpoint(const fs::path& path, bool with_optimizer) try {
  const auto manifest = read_manifest(path);
  if (with_optimizer)
    verify_files(path, manifest);
  else
    for (const char* files : {model_files, state_files}) verify_files(path, manifest, files);
  auto checkpoint = facts_from(manifest);
  TensorMap parts;
  for (const auto& [name, facts] : manifest.at("files").items()) {
    if (name.starts_with(model_files)) checkpoint.model.merge(read_safetensors(path / name));
    if (with_optimizer && name.starts_with(optimizer_files))
      checkpoint.optimizer.tensors.merge(read_safetensors(path / name));
    if (name.starts_with(state_files)) parts.merge(read_safetensors(path / name));
  }
  checkpoint.optimizer.values = values_from(manifest.at("optimizer"));
  for (const auto& [name, values] : manifest.at("parts").items())
    checkpoint.parts[name].values = values_from(values);
  for (auto& [name, tensor] : parts) {
    const auto slash = name.find('/');
    checkpoint.parts[name.substr(0, slash)].tensors[name.substr(slash + 1)] = tensor;
  }
  return checkpoint;
} catch (const nlohmann::json::exception&) {
  throw damaged_manifest(path);
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

std::vector<std::string> averaging_algorithms() {
  auto names = registry().algorithms.names();
  std::erase_if(names, [](const auto& name) { return prefix_of(name).empty(); });
  return names;
}

bool acts_on_predictions(const Component& algorithm) {
  return algorithm.subscriptions().test(static_cast<size_t>(Event::predict_start)) ||
         algorithm.subscriptions().test(static_cast<size_t>(Event::predict_after_forward));
}

std::string weights_of_evaluation(const Checkpoint& checkpoint) {
  for (const auto& algorithm : averaging_algorithms())
    if (acts_on_predictions(*registry().algorithms.find(algorithm)) &&
        !averages_of(checkpoint, algorithm).empty())
      return algorithm;
  return "model";
}

std::map<std::string, at::Tensor> weights_of(const Checkpoint& checkpoint,
                                             const std::string& algorithm,
                                             const std::string& path) {
  auto tensors = checkpoint.model;
  if (algorithm == "model") return tensors;
  if (!checkpoint.parts.contains(path_of(ChoiceKey::algorithms, algorithm)))
    throw UserError(path + ": has no weights of " + algorithm +
                    ": the run was without it, or had not come to its start");
  const auto averages = averages_of(checkpoint, algorithm);
  for (const auto& [name, tensor] : averages) {
    const auto place = tensors.find(name);
    if (place == tensors.end())
      throw UserError(path + ": the model has no tensor for '" + name + "' of " + algorithm);
    place->second = tensor;
  }
  if (averages.empty())
    throw UserError(path + ": holds no average of " + algorithm +
                    ": either nothing is averaged yet, or the average is the model by now; use "
                    "--weights model");
  return tensors;
}

}  // namespace composer
