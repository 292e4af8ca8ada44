// The subcommand check: compares a recipe's training steps with those of another backend.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_number.h"
#include "base/log.h"
#include "base/params/value.h"
#include "base/run_context.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "composer/comparison/step_check.h"
#include "composer/run/assemble.h"
#include "composer/run/automatic_values.h"
#include "nn/device/device.h"
#include "nn/network/fused_norm.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

/// The parts to train the recipe. with_data: with a train_loader and everything else of a training.
TrainerParts parts_of(const Recipe& recipe, const RunContext& context, bool with_data) {
  if (with_data) return assemble_training(recipe, context);
  auto parts = assemble_model(recipe, context);
  parts.optimizer = recipe.optimizer->build();
  parts.schedulers = build_schedulers(recipe);
  return parts;
}

/// One side of the comparison. with_data: only the reference opens the data.
CheckedSide side_of(const Recipe& recipe, const RunContext& context, bool with_data) {
  return {[recipe, context, with_data] { return parts_of(recipe, context, with_data); }, {}};
}

struct Sides {
  CheckedSide checked, reference;
};

Sides against_fp32(Recipe recipe, const RunContext& context) {
  const auto device = resolve_device(recipe.options.device, context.environment);
  const auto precision = resolve_precision(recipe.options.precision, device);
  if (precision == Precision::fp32)
    throw UserError("--against fp32: the recipe's precision, " + recipe.options.precision +
                    ", is fp32 here already; give another one, for instance --precision bf16");
  recipe.options.precision = name(precision);
  const auto checked = side_of(recipe, context, false);
  recipe.options.precision = "fp32";
  return {checked, side_of(recipe, context, true)};
}

Sides against_cpu(Recipe recipe, const RunContext& context) {
  const auto device = resolve_device(recipe.options.device, context.environment);
  if (device.is_cpu())
    throw UserError(
        "--against cpu: the recipe's device is the CPU already; this is for machines with a GPU");
  const auto precision = resolve_precision(recipe.options.precision, device);
  recipe.options.precision = name(precision);
  const auto checked = side_of(recipe, context, false);
  recipe.options.device = "cpu";
  if (precision != Precision::amp_bf16) recipe.options.precision = "fp32";
  return {checked, side_of(recipe, context, true)};
}

Sides against_unfused(Recipe recipe, const RunContext& context) {
  auto reference = side_of(recipe, context, true);
  reference.scope = [] { return std::make_shared<Unfused>(); };
  return {side_of(recipe, context, false), reference};
}

const std::map<std::string, Sides (*)(Recipe, const RunContext&)> backends{
    {"cpu", against_cpu}, {"fp32", against_fp32}, {"unfused", against_unfused}};

std::string side_text(const StepCheck::Side& side) {
  return std::string(name(side.precision)) + " on " + side.device;
}

/// "0.0312", "3.1e-06".
std::string error_text(double error) {
  if (!std::isfinite(error)) return "not finite";
  char text[32];
  std::snprintf(text, sizeof text, error == 0 || error >= 1e-3 ? "%.4f" : "%.1e", error);
  return text;
}

void print(const StepCheck& check, const Words& algorithms) {
  auto& out = std::cout;
  out << side_text(check.checked) << "\nagainst " << side_text(check.reference) << ", "
      << quantity(std::ssize(check.deviations.front().by_step), "step") << " of "
      << quantity(check.batch_size, "image")
      << "\nalgorithms: " << (algorithms.empty() ? "none" : joined(algorithms)) << "\n\n"
      << std::left << std::setw(12) << "" << std::setw(12) << "deviation" << std::setw(12)
      << "tolerance"
      << "the worst\n";
  for (const auto& deviation : check.deviations) {
    out << std::setw(12) << deviation.what;
    if (deviation.worst() == 0) {
      out << "all within what rounding does to the reference\n";
      continue;
    }
    out << std::setw(12) << error_text(deviation.worst()) << std::setw(12)
        << error_text(deviation.tolerance)
        << (deviation.tensor.empty() ? "" : deviation.tensor + ", ") << "step "
        << deviation.step + 1 << (deviation.within() ? "" : "  BEYOND") << '\n';
  }
  if (check.overflowed > 0)
    out << "\ngradients overflowed in " << quantity(check.overflowed, "step")
        << ", while loss scaling looked for its scale: not compared there\n";
  if (!check.free_losses.empty()) out << "\nloss of steps that each side goes on by itself:\n";
  for (const auto& [checked, reference] : check.free_losses)
    out << "  " << std::setw(12) << checked << std::setw(12) << reference << '\n';
  out << '\n';
  if (check.within()) out << "all is within the tolerances\n";
  for (const auto& deviation : check.deviations)
    if (!deviation.within())
      out << deviation.what << ": "
          << (std::isfinite(deviation.worst())
                  ? "more than rounding explains"
                  : "not finite: the training diverges, or numbers overflow")
          << (deviation.first.empty() ? "" : ", first at " + deviation.first) << '\n';
}

ordered_json json_of(const StepCheck& check, const std::string& against, const Words& algorithms) {
  const auto side = [](const StepCheck::Side& one) {
    return ordered_json{{"device", one.device}, {"precision", name(one.precision)}};
  };
  auto deviations = ordered_json::array();
  for (const auto& one : check.deviations) {
    auto by_step = ordered_json::array();
    for (const double error : one.by_step) by_step.push_back(json_number(error));
    deviations.push_back({{"what", one.what},
                          {"deviation", json_number(one.worst())},
                          {"tolerance", one.tolerance},
                          {"within", one.within()},
                          {"tensor", one.tensor},
                          {"step", one.step + 1},
                          {"first", one.first},
                          {"by_step", by_step}});
  }
  auto free_losses = ordered_json::array();
  for (const auto& [checked, reference] : check.free_losses)
    free_losses.push_back({json_number(checked), json_number(reference)});
  return {{"against", against},
          {"within", check.within()},
          {"checked", side(check.checked)},
          {"reference", side(check.reference)},
          {"algorithms", algorithms},
          {"steps", check.deviations.front().by_step.size()},
          {"batch_size", check.batch_size},
          {"deviations", deviations},
          {"overflowed_steps", check.overflowed},
          {"free_losses", free_losses}};
}

}  // namespace

int check_command(const Words& words) {
  CLI::App app(
      "Trains a few steps of a recipe twice on the same batches, as it stands and by another "
      "backend, and compares\nloss, logits, gradients, weights and statistics. Each step begins "
      "with the same weights on both sides. Exit\nstatus 0: all is within the tolerances; 1: "
      "something is beyond.",
      "check");
  std::string file, against;
  StepCheckOptions options;
  app.option_defaults()->always_capture_default();
  add_recipe(app, file)->required();
  app.add_option(
         "--against", against,
         "fp32: the recipe's precision against float32; unfused: composer's own operators against "
         "LibTorch's, step by step; cpu: its GPU against the CPU")
      ->required()
      ->check(word_of(names_in(backends)));
  app.add_option("--steps", options.steps, "steps that are compared")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--free_steps", options.free_steps,
                 "further steps that each side takes by itself; their losses are shown")
      ->check(CLI::Range(0, 1 << 20));
  const auto& json = add_json(app);
  if (!parse(app, words)) return 0;

  const auto context = read_run_context();
  check_alone("check", context.environment);
  auto recipe = resolved_with_log(recipe_of(app, file), context);
  leave_no_run(recipe.options);
  recipe.val_dataset = nullptr;
  recipe.evaluators.clear();
  if (std::ranges::any_of(recipe.algorithms, [](const auto& one) { return one->name() == "sam"; }))
    log::warn(
        "check: sam takes gradients at weights that other gradients chose, which multiplies "
        "rounding: what is beyond a tolerance says little; check the recipe without it");

  log::quiet();
  const auto [checked, reference] = backends.at(against)(recipe, context);
  const auto kept_back = Unfused::kept_back();
  const auto check = check_steps(checked, reference, options);
  if (check.signal != 0) throw Interrupted{check.signal};
  if (against == "unfused" && Unfused::kept_back() == kept_back)
    log::warn(
        "--against unfused: this recipe uses none of composer's own operators here; both sides "
        "computed the same way, so nothing was compared");
  if (json)
    std::cout << json_of(check, against, algorithm_names(recipe)) << '\n';
  else
    print(check, algorithm_names(recipe));
  return check.within() ? 0 : 1;
}

}  // namespace composer
