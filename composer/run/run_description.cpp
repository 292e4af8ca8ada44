#include "composer/run/run_description.h"

#include <ATen/Parallel.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/atomic_file.h"
#include "base/host_name.h"
#include "base/text.h"
#include "composer/run/rank_threads.h"
#include "nn/device/device.h"

namespace composer {
namespace {

/// The start of the run as its first process wrote it; else now.
std::string beginning(const std::filesystem::path& file) {
  std::ifstream in(file);
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  const auto began = json.is_object() ? json.find("began") : json.end();
  return began != json.end() && began->is_string() ? began->get<std::string>() : local_time_text();
}

std::string samples_of(const Loader& loader) {
  const auto size = loader.image_size();
  return quantity(loader.samples_per_epoch(), "sample") + " of " + std::to_string(size.height) +
         "x" + std::to_string(size.width);
}

std::string length_of(const RunLength& run_length) {
  auto text = quantity(run_length.batches_per_epoch, "step") + " an epoch, ";
  if (const auto total = run_length.total_batches()) text += std::to_string(*total) + " in all, ";
  return text + run_length.max_duration.str();
}

}  // namespace

void write_run_description(const std::filesystem::path& folder,
                           const std::vector<std::string>& header,
                           const std::vector<std::string>& class_names,
                           const std::vector<Member<Algorithm>>& algorithms,
                           const RunLength& run_length) {
  auto surgery = nlohmann::ordered_json::array();
  for (const auto& algorithm : algorithms)
    if (auto changes = algorithm.component->report(); !changes.empty())
      surgery.push_back({{"algorithm", algorithm.name}, {"changes", std::move(changes)}});
  const auto total = run_length.total_batches();
  const nlohmann::ordered_json json{
      {"began", beginning(folder / "about.json")},
      {"host", host_name()},
      {"header", header},
      {"class_names", class_names},
      {"surgery", surgery},
      {"batches_per_epoch", run_length.batches_per_epoch},
      {"total_batches", total ? nlohmann::ordered_json(*total + run_length.ahead_of_length)
                              : nlohmann::ordered_json()}};
  write_whole(
      folder / "about.json",
      json.dump(2, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace) + "\n");
}

std::string evaluation_line(const Loader& loader, const std::string& set) {
  return "evaluation" + (set.empty() ? "" : " " + set) + ": " + samples_of(loader);
}

std::vector<std::string> run_header(const State& state, const TrainerOptions& options,
                                    const Loader& training, const Loader* evaluation,
                                    const std::filesystem::path& folder,
                                    const RunContext& context) {
  const int64_t of_rows = state.ranks.of_rows().size();
  int64_t parameters = 0;
  for (const auto& parameter : state.model->parameters()) parameters += parameter.numel();
  return {
      "device: " + describe(state.device) + ", " + std::string(name(state.precision)) + ", " +
          (state.device.is_cpu() ? "" : quantity(at::get_num_threads(), "CPU thread") + ", ") +
          quantity(rank_threads(options, context).loader, "loader thread"),
      "network: " + state.model->describe() + ", " + std::to_string(parameters) + " parameters, " +
          quantity(state.model->num_classes(),
                   state.model->objective().takes_values() ? "output" : "class"),
      "training: " + samples_of(training) + ", " + length_of(state.run_length) +
          (state.ranks.alone() ? "" : ", " + std::to_string(state.ranks.size()) + " ranks") +
          (of_rows == 1 ? "" : ", " + std::to_string(of_rows) + " an image"),
      evaluation == nullptr ? "evaluation: none" : evaluation_line(*evaluation, ""),
      "run: " + (folder.empty() ? "nothing is left on the disk" : folder.string()),
  };
}

}  // namespace composer
