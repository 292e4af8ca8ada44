// The subcommand plan-scale: predicts the training of a recipe on many GPUs.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "analysis/figure_text.h"
#include "base/error.h"
#include "base/log.h"
#include "base/run_context.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/cost_table.h"
#include "cli/measured_step.h"
#include "composer/recipe/recipe.h"
#include "composer/run/automatic_values.h"
#include "scale/plan.h"
#include "scale/recipe_training.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

/// "88 x 88", "88 x 88 to 176 x 176".
std::string sizes_text(const Training& training) {
  const auto pixels = [](const Training::Part& part) {
    return part.work.size.height * part.work.size.width;
  };
  const auto text = [](const Training::Part& part) {
    return std::to_string(part.work.size.height) + " x " + std::to_string(part.work.size.width);
  };
  const auto [least, most] = std::ranges::minmax_element(training.parts, {}, pixels);
  return least == most ? text(*most) : text(*least) + " to " + text(*most);
}

template <class T>
std::string names_of(const std::vector<T>& known) {
  std::vector<std::string> names;
  for (const auto& one : known) names.push_back(one.name);
  return joined(names);
}

/// Warns when a plan needs more memory than the GPU has.
void warn_of_memory(const ScalePlan& plan, const Gpu& gpu) {
  const double bytes = plan.memory.total();
  if (gpu.memory_bytes <= 0 || bytes <= gpu.memory_bytes) return;
  log::warn("--gpus " + std::to_string(plan.cluster.gpus) + ": a step needs some " +
            bytes_text(bytes) + " of the " + bytes_text(gpu.memory_bytes) + " that " + gpu.name +
            " has; give a larger --grad_accum, or more GPUs");
}

/// The options of the command line.
struct Given {
  std::string file, gpu, network, kernels = "pytorch", from;
  std::vector<int64_t> gpus;
  std::optional<int64_t> batch_per_gpu;
  std::optional<double> bytes_per_image, images_per_s_per_core, link_gb_s, link_us;
  double write_gb_s = 1;
  bool json = false;
};

/// Warns, as a run does, when the recipe's parallelism has no effect.
void warn_of_division(const Given& given, const TrainerOptions& options, const Training& training) {
  const bool alone = std::ranges::all_of(given.gpus, [](int64_t n) { return n == 1; });
  const std::string idle = options.parallelism == "ddp"           ? ""
                           : alone                                ? "there is one GPU"
                           : training.divided == Divided::nothing ? "the optimizer keeps no state "
                                                                    "to divide"
                                                                  : "";
  if (!idle.empty()) log::warn("parallelism: " + options.parallelism + " has no effect: " + idle);
}

/// recipe_training() with a batch of batch_per_gpu images for each GPU, or for each group of
/// spatial_ranks GPUs.
RecipeTraining training_of(Recipe recipe, const RunContext& context, at::Device device,
                           int64_t batch_per_gpu, int64_t gpus) {
  recipe.options.train_batch_size =
      batch_per_gpu * std::max<int64_t>(1, gpus / recipe.options.spatial_ranks);
  try {
    return recipe_training(std::move(recipe), context, device);
  } catch (const UserError& error) {
    const std::string problem = error.what();
    if (!problem.starts_with("train_batch_size")) throw;
    throw UserError("--batch_per_gpu: " + std::to_string(batch_per_gpu) + " on " +
                    std::to_string(gpus) + " GPUs: " + problem);
  }
}

/// The training of the recipe on each number of GPUs.
std::vector<RecipeTraining> subjects_of(const Recipe& recipe, const RunContext& context,
                                        const Gpu& gpu, const Given& given) {
  std::optional<MeasuredStep> measured;
  if (!given.from.empty()) measured = measured_step(given.from, recipe, gpu);
  const at::Device device(gpu.driver.empty() ? at::kCPU : at::kCUDA);
  std::vector<RecipeTraining> subjects;
  for (const int64_t gpus : given.gpus) {
    if (!given.batch_per_gpu && !subjects.empty()) {
      subjects.push_back(subjects[0]);
      continue;
    }
    auto& subject = subjects.emplace_back(
        given.batch_per_gpu ? training_of(recipe, context, device, *given.batch_per_gpu, gpus)
                            : recipe_training(recipe, context, device));
    subject.training.measured = measured;
    if (given.bytes_per_image) {
      subject.training.image_bytes = *given.bytes_per_image;
      subject.storage_source = "--bytes_per_image";
    }
    if (given.images_per_s_per_core) {
      subject.training.images_per_s_per_core = *given.images_per_s_per_core;
      subject.loader_source = "--images_per_s_per_core";
    }
  }
  return subjects;
}

/// Warns of an option that was given and changes nothing.
void warn_of_effect(const CLI::App& app, const std::string& option, bool has_effect,
                    const std::string& why) {
  if (app.count(option) > 0 && !has_effect) log::warn(option + ": has no effect: " + why);
}

void warn_of_effects(const CLI::App& app, const Given& given, const Assumptions& assumptions,
                     const Training& training, bool several) {
  const bool alone = std::ranges::all_of(given.gpus, [](int64_t n) { return n == 1; });
  const std::string one_machine = "the GPUs are of one machine", one_gpu = "there is one GPU";
  warn_of_effect(app, "--network", several, one_machine);
  warn_of_effect(app, "--network_cards", several, one_machine);
  warn_of_effect(app, "--link_gb_s", !alone, one_gpu);
  warn_of_effect(app, "--link_us", !alone, one_gpu);
  warn_of_effect(app, "--cores_per_gpu", training.images_per_s_per_core > 0,
                 "loading costs nothing; give --images_per_s_per_core");
  warn_of_effect(app, "--straggler", assumptions.simulated_steps > 0, "--simulated_steps is 0");
  warn_of_effect(app, "--restart_seconds", assumptions.gpu_hours_per_failure > 0,
                 "--gpu_hours_per_failure is 0");
  warn_of_effect(app, "--write_gb_s", training.checkpoints > 0, "the recipe has no run_dir");
}

}  // namespace

int plan_scale_command(const Words& words) {
  CLI::App app(
      "Estimates a recipe's training on many GPUs, without any: images/s, time, cost,\n"
      "sums of gradients and how much of them the backward pass hides, loader cores, network,\n"
      "storage, checkpoints, failures. The formulas and their errors: docs/scale.md.",
      "plan-scale");
  Given given;
  Assumptions assumptions;
  assumptions.simulated_steps = 20;
  add_recipe(app, given.file)->required();
  app.add_option("--gpus", given.gpus, "numbers of GPUs: 8,64,1024")
      ->delimiter(',')
      ->required()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app.add_option("--gpu", given.gpu, names_of(known_gpus()))->required();
  app.add_option(
      "--network", given.network,
      "speed of one card: " + names_of(known_networks()) + " (needed for more than one machine)");
  app.add_option("--network_cards", assumptions.cards,
                 "cards of a machine (default: as many as its GPU's usual machine)")
      ->check(CLI::Range(1, 64));
  app.add_option("--batch_per_gpu", given.batch_per_gpu,
                 "images, in place of the recipe's train_batch_size over all GPUs")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app.add_option("--kernels", given.kernels,
                 "kernels that count: pytorch, or mlperf, the fastest published (default: pytorch)")
      ->check(word_of({"pytorch", "mlperf"}));
  app.add_option("--mfu", assumptions.mfu,
                 "share of the published peak that steps reach, as the callback mfu logs it")
      ->check(positive())
      ->check(CLI::Range(1e-6, 1.0));
  app.add_option("--from", given.from,
                 "folder of a run of one process, whose measured step takes the table's place");
  app.add_option("--price_per_hour", assumptions.price_per_hour, "price of one GPU")
      ->check(not_negative());
  app.add_option("--images_per_s_per_core", given.images_per_s_per_core,
                 "rate of the loader, as composer bench loader gives it")
      ->check(positive());
  app.add_option("--cores_per_gpu", assumptions.cores_per_gpu,
                 "cores that load (default: as many as it takes)")
      ->check(positive());
  app.add_option("--bytes_per_image", given.bytes_per_image, "stored bytes")->check(positive());
  app.add_option("--write_gb_s", given.write_gb_s, "GB/s of the disk for checkpoints (default: 1)")
      ->check(positive());
  app.add_option("--gpu_hours_per_failure", assumptions.gpu_hours_per_failure,
                 "mean hours of a GPU until one fails; 0 = never (default: 50000)")
      ->check(not_negative());
  app.add_option("--restart_seconds", assumptions.restart_seconds,
                 "seconds from a failure until training goes on (default: 180)")
      ->check(not_negative());
  app.add_option("--spread", assumptions.spread,
                 "standard deviation of a GPU's own time in a step, a share of it (default: 0)")
      ->check(not_negative())
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--straggler", assumptions.straggler,
                 "slowdown of one GPU against the others, in the simulation (default: 1)")
      ->check(positive())
      ->check(CLI::Range(1.0, 1000.0));
  app.add_option("--simulated_steps", assumptions.simulated_steps,
                 "steps of the simulation beside the formulas; 0 = none (default: 20)")
      ->check(CLI::Range(0, 100000));
  app.add_option("--link_gb_s", given.link_gb_s, "GB/s of a GPU to the others of its machine")
      ->check(positive());
  app.add_option("--link_us", given.link_us, "microseconds of a message there")
      ->check(not_negative());
  app.add_flag("--json", given.json, "one JSON object on standard output");
  if (!parse(app, words)) return 0;

  auto gpu = find_gpu("--gpu", lower_case(given.gpu));
  if (given.link_gb_s) gpu.inside.bytes_per_s = *given.link_gb_s * 1e9;
  if (given.link_us) gpu.inside.latency = *given.link_us * 1e-6;
  assumptions.kernels = given.kernels == "mlperf" ? Kernels::mlperf : Kernels::pytorch;
  assumptions.write_bytes_per_s = given.write_gb_s * 1e9;
  const bool several =
      std::ranges::any_of(given.gpus, [&](int64_t n) { return n > gpu.per_machine; });
  if (given.network.empty() && several)
    throw UserError("--network: is needed for more than one machine of " +
                    std::to_string(gpu.per_machine) + " " + gpu.name +
                    "; there are: " + names_of(known_networks()));
  const auto& network = find_network("--network", given.network.empty() ? "400g" : given.network);
  for (const auto& [one, other] :
       {std::pair{"--mfu", "--from"}, {"--kernels", "--from"}, {"--kernels", "--mfu"}})
    if (app.count(one) > 0 && app.count(other) > 0)
      throw UserError(std::string(one) + ", " + other + ": both say how fast steps are; give one");

  const auto context = read_run_context();
  const auto resolved = resolve_automatic(recipe_of(app, given.file), context, Purpose::plan);
  const Recipe& recipe = resolved.recipe;
  for (const auto& choice : resolved.choices) log::info("auto: " + choice);
  assumptions.overlap = !gpu.driver.empty();
  assumptions.save_async = recipe.options.save_async;
  const auto subjects = subjects_of(recipe, context, gpu, given);
  const auto& subject = subjects[0];
  const auto& training = subject.training;
  warn_of_effects(app, given, assumptions, training, several);
  if (!subject.not_evaluated.empty())
    log::warn("evaluations are not counted: " + subject.not_evaluated);
  warn_of_division(given, recipe.options, training);

  std::vector<ScalePlan> plans;
  for (size_t i = 0; i < subjects.size(); ++i) {
    plans.push_back(
        plan_scale(subjects[i].training, gpu, network, given.gpus[i], assumptions, "--gpus"));
    warn_of_memory(plans.back(), gpu);
    if (assumptions.simulated_steps > 0 && !plans.back().simulated)
      log::warn("--gpus " + std::to_string(given.gpus[i]) +
                ": is not simulated: " + std::to_string(assumptions.simulated_steps) +
                " steps of so many would take minutes; give fewer --simulated_steps");
  }

  const auto& work = std::ranges::max_element(training.parts, {}, &Training::Part::batches)->work;
  if (given.json) {
    ordered_json json{{"recipe", given.file},
                      {"model", subject.model},
                      {"parameters", subject.parameters},
                      {"flops_step", work.flops_step},
                      {"precision", name(training.precision)},
                      {"parallelism", recipe.options.parallelism},
                      {"spatial_ranks", training.spatial_ranks},
                      {"gpu", gpu.name},
                      {"sustained_flops_per_s", plans[0].rate.flops_per_s},
                      {"sources",
                       {{"rate", plans[0].rate.source},
                        {"gpu", gpu.source},
                        {"link", gpu.inside.source},
                        {"loader", subject.loader_source},
                        {"storage", subject.storage_source}}},
                      {"plans", ordered_json::array()}};
    if (several) json["network"] = network.name, json["sources"]["network"] = network.card.source;
    if (!subject.note.empty()) json["note"] = subject.note.substr(1);
    for (size_t i = 0; i < plans.size(); ++i)
      json["plans"].push_back(json_of(plans[i], subjects[i].training));
    std::cout << json_line(json) << '\n';
    return 0;
  }
  std::cout << subject.model << ", " << short_number(static_cast<double>(subject.parameters))
            << " parameters, " << subject.run_length.max_duration.str() << " of "
            << count_figure(subject.run_length.samples_per_epoch) << " images of "
            << sizes_text(training) << subject.note << "\nsteps of " << work.size.height << " x "
            << work.size.width << ": " << short_number(work.flops_step) << "FLOPs an image\n";
  if (recipe.options.parallelism != "ddp" || training.spatial_ranks > 1)
    std::cout << "parallelism " << recipe.options.parallelism << ", spatial_ranks "
              << training.spatial_ranks << '\n';
  std::cout << '\n';
  print_scale_table(std::cout, plans, training, assumptions);
  std::cout << '\n';
  if (plans[0].rate.flops_per_s > 0)
    std::cout << "rate      " << rate_text(plans[0].rate.flops_per_s, "FLOP") << " in "
              << name(training.precision) << ": " << plans[0].rate.source << '\n';
  else
    std::cout << "rate      " << plans[0].rate.source << '\n';
  std::cout << "GPU       " << gpu.name << ": " << gpu.source << '\n';
  if (several)
    std::cout << "network   "
              << counted(assumptions.cards > 0 ? assumptions.cards : gpu.cards, "card") << " of "
              << network.name << " a machine: " << network.card.source << '\n';
  std::cout
      << "loader    " << subject.loader_source << "\nstorage   " << subject.storage_source << '\n'
      << "Not counted: what algorithms add to a step or leave out of it. Formulas and errors: "
         "docs/scale.md\n";
  return 0;
}

}  // namespace composer
