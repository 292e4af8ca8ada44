#include "cli/measured_step.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "analysis/run.h"
#include "analysis/time_parts.h"
#include "base/error.h"
#include "base/log.h"
#include "base/params/json.h"
#include "base/text.h"

namespace composer {
namespace {

using RecipeFigures = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

/// The value of the key; null if the recipe lacks it.
template <class Value>
const Value* value_of(const std::vector<std::pair<std::string, Value>>& recipe,
                      const std::string& key) {
  const auto found = std::ranges::find(recipe, key, &std::pair<std::string, Value>::first);
  return found == recipe.end() ? nullptr : &found->second;
}

/// Whether the key, which is not one of the model's, influences the time of a step.
bool sets_pace(const std::string& key) {
  const bool size = key.ends_with("size") || key.ends_with("height") || key.ends_with("width");
  return key == "precision" || key == "grad_accum" || key == "freeze" ||
         key.starts_with("algorithms.") || (key.starts_with("train_dataset.") && size);
}

/// UserError when the run is of another network or kind of device; warns when another key that
/// influences the time of a step differs.
void check_same(const Run& run, const Recipe& recipe, const Gpu& gpu) {
  const std::string from = "--from: " + run.folder.string();
  if (run.summary->device.starts_with("cpu") != gpu.driver.empty())
    throw UserError(from + " was trained on " + run.summary->device + ", not on --gpu " + gpu.name);
  const auto then = flat_recipe(run.recipe_text), now = flat_recipe(dump(recipe));
  std::vector<std::string> others;
  const auto compare = [&](const RecipeFigures& some, const RecipeFigures& rest, bool both) {
    for (const auto& [key, value] : some) {
      const bool model = key.starts_with("model.") && key.find("initializ") == std::string::npos;
      const auto* const other = value_of(rest, key);
      if ((!model && !sets_pace(key)) || (other != nullptr && (!both || *other == value))) continue;
      if (model) throw UserError(from + " is of another network: " + key + " differs");
      others.push_back(key);
    }
  };
  compare(now, then, true);
  compare(then, now, false);
  if (!others.empty())
    log::warn(from + " was trained with other settings, whose step is taken all the same: " +
              joined(others));
}

}  // namespace

MeasuredStep measured_step(const std::string& folder, const Recipe& recipe, const Gpu& gpu) {
  const auto run = read_run(folder);
  const auto* const batch_size = value_of(run.recipe, "train_batch_size");
  if (!run.summary || run.summary->samples_per_second <= 0 || !batch_size)
    throw UserError("--from: " + folder +
                    " has no summary.json with a rate; give a run that ended");
  if (run.summary->world_size != 1)
    throw UserError("--from: " + folder + " is of " + std::to_string(run.summary->world_size) +
                    " ranks; give a run of one");
  check_same(run, recipe, gpu);
  MeasuredStep step;
  step.images = std::stod(*batch_size);
  step.source = "measured by the run " + run.name;
  using Kind = TimePart::Kind;
  const auto* const workers = value_of(run.recipe, "dataloader.num_workers");
  const bool loads_itself = workers != nullptr && *workers == "0";
  double waits = 0;
  for (const auto& part : time_parts_of(run)) {
    if (part.kind == Kind::forward) step.forward += part.seconds;
    if (part.kind == Kind::backward) step.backward += part.seconds;
    if (part.kind == Kind::optimizer || part.kind == Kind::algorithm) step.rest += part.seconds;
    if (part.kind == Kind::waiting) (loads_itself ? step.loading : waits) += part.seconds;
  }
  if (!run.summary->device.starts_with("cpu") && step.forward + step.backward + step.rest > 0) {
    // The log has times of the host, which runs ahead of the device.
    step.forward = (step.forward + step.backward + step.rest) / 3;
    step.backward = 2 * step.forward, step.rest = step.loading = waits = 0;
  }
  if (step.forward <= 0 || step.backward <= 0)
    throw UserError("--from: " + folder + " has not logged what its steps took");
  const double work = step.forward + step.backward + step.rest + step.loading;
  const double scale = step.images / run.summary->samples_per_second / (work + waits);
  step.forward *= scale, step.backward *= scale, step.rest *= scale, step.loading *= scale;
  return step;
}

}  // namespace composer
