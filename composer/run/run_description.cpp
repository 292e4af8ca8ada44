#include "composer/run/run_description.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files/atomic_file.h"
#include "base/host_name.h"
#include "base/local_time.h"

namespace composer {
namespace {

/// What the run's first process wrote; else now.
std::string beginning(const std::filesystem::path& file) {
  std::ifstream in(file);
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  const auto began = json.is_object() ? json.find("began") : json.end();
  return began != json.end() && began->is_string() ? began->get<std::string>() : local_time_text();
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

}  // namespace composer
