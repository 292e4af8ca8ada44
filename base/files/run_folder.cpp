#include "base/files/run_folder.h"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/json_number.h"
#include "base/version.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string unique_name() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", std::localtime(&now));
  char suffix[8];
  std::snprintf(suffix, sizeof suffix, "-%04x", std::random_device{}() & 0xffff);
  return std::string(text) + suffix;
}

Json to_json(const std::map<std::string, double>& values) {
  auto json = Json::object();
  for (const auto& [name, value] : values) json[name] = json_number(value);
  return json;
}

Json to_json(const std::map<std::string, Summary::Best>& values) {
  auto json = Json::object();
  for (const auto& [name, best] : values)
    json[name] = {{"value", json_number(best.value)}, {"batch", best.batch}};
  return json;
}

}  // namespace

RunFolder::RunFolder(const std::string& run_dir, std::string run_name, bool resume)
    : run_name_(run_name.empty() ? unique_name() : std::move(run_name)),
      path_(fs::path(run_dir) / run_name_),
      kept_(!run_dir.empty()),
      resume_(resume) {
  if (!kept_) return;
  if (std::error_code none; !resume && fs::exists(path_) && !trained_nothing())
    throw UserError("run_name: the run folder " + path_.string() + " exists already; give " +
                    "--autoresume true to go on with it" +
                    (fs::exists(checkpoints(), none) ? "" : " or, without a checkpoint, begin it") +
                    ", or another --run_name");
  if (fs::exists(path_) && !fs::is_directory(path_))
    throw UserError("run_name: " + path_.string() + " is no folder");
}

std::unique_ptr<Mailbox> RunFolder::claim() const {
  if (!kept_) return nullptr;
  std::error_code problem;
  fs::create_directories(path_.parent_path(), problem);
  if (problem)
    throw UserError("run_dir: " + path_.parent_path().string() +
                    " cannot be made: " + problem.message());
  auto lock = std::make_unique<Mailbox>(path_);
  if (lock->made_folder() || resume_) return lock;
  if (!trained_nothing())
    throw UserError("run_name: the run folder " + path_.string() + " exists already");
  fs::remove_all(checkpoints(), problem);  // of the initial weights
  if (problem)
    throw UserError("run_name: " + checkpoints().string() +
                    " cannot be removed: " + problem.message());
  return lock;
}

/// Whether the folder's run trained no batch. It may have been killed before it wrote a summary.
bool RunFolder::trained_nothing() const {
  if (const auto summary = read_summary())
    return summary->status != "completed" && summary->time.batch == 0;
  std::error_code none;
  const auto has = [&](const char* name) { return fs::exists(path_ / name, none); };
  return has("hparams.yaml") && !has("summary.json") && !has("checkpoints") &&
         (!has("metrics.jsonl") || fs::is_empty(path_ / "metrics.jsonl", none));
}

void RunFolder::write_recipe(const std::string& recipe) const {
  if (!kept_) return;
  remove_partial_files(path_);
  if (!recipe.empty()) write_whole(path_ / "hparams.yaml", recipe);
}

std::string Summary::limited_by() const {
  constexpr double little = 0.05, much = 0.25;
  if (!wait_fraction) return "";
  return *wait_fraction < little ? "step" : *wait_fraction < much ? "step and data" : "data";
}

std::optional<Summary> RunFolder::read_summary() const {
  if (!kept_) return {};
  std::ifstream in(path_ / "summary.json");
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  const auto status = json.find("status"), speed = json.find("samples_per_second"),
             batches = json.find("batches"), wait = json.find("wait_fraction"),
             peak = json.find("peak_memory_bytes");
  if (status == json.end() || !status->is_string()) return {};
  Summary summary;
  summary.status = status->get<std::string>();
  const bool counted = batches != json.end() && batches->is_number_integer();
  summary.time.batch = counted ? batches->get<int64_t>() : -1;
  if (speed != json.end() && speed->is_number()) summary.samples_per_second = speed->get<double>();
  if (wait != json.end() && wait->is_number()) summary.wait_fraction = wait->get<double>();
  if (peak != json.end() && peak->is_number_integer())
    summary.peak_memory_bytes = peak->get<int64_t>();
  return summary;
}

void RunFolder::write_summary(const Summary& summary) const {
  if (!kept_) return;
  const auto wait = summary.wait_fraction ? Json(*summary.wait_fraction) : Json(nullptr);
  const Json json{{"status", summary.status},
                  {"message", summary.message},
                  {"stopped", summary.stopped},
                  {"ended", local_time_text()},
                  {"epochs", summary.time.epoch},
                  {"batches", summary.time.batch},
                  {"samples", summary.time.sample},
                  {"seconds", summary.time.seconds},
                  {"samples_per_second", summary.samples_per_second},
                  {"wait_fraction", wait},
                  {"limited_by", summary.limited_by()},
                  {"metrics", to_json(summary.metrics)},
                  {"best_metrics", to_json(summary.best_metrics)},
                  {"device", summary.device},
                  {"precision", summary.precision},
                  {"world_size", summary.world_size},
                  {"grad_accum", summary.grad_accum},
                  {"peak_memory_bytes", summary.peak_memory_bytes},
                  {"version", version}};
  constexpr auto replace = nlohmann::json::error_handler_t::replace;
  write_whole(path_ / "summary.json", json.dump(2, ' ', /*ensure_ascii=*/false, replace) + "\n");
}

void RunFolder::remove_summary() const {
  std::error_code ignored;
  if (kept_) fs::remove(path_ / "summary.json", ignored);
}

}  // namespace composer
