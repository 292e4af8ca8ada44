#include "composer/run/assemble.h"

#include <sstream>

#include "base/error.h"
#include "base/files/run_folder.h"
#include "base/log.h"
#include "base/params/utf8.h"
#include "base/remote/cache_folder.h"
#include "base/remote/fetched.h"
#include "base/text.h"
#include "composer/callbacks/callbacks.h"
#include "composer/callbacks/monitors.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "composer/recipe/options.h"
#include "composer/run/automatic_values.h"
#include "composer/run/image_fit.h"
#include "composer/run/rank_threads.h"
#include "nn/device/device.h"
#include "nn/distributed/ranks.h"

namespace composer {
namespace {

template <class T>
std::vector<Member<T>> build_members(const std::vector<std::shared_ptr<ComponentOf<T>>>& components,
                                     const std::string& key) {
  std::vector<Member<T>> members;
  for (const auto& component : components)
    members.push_back(
        {component->name(), constructed(*component, key), component->subscriptions()});
  return members;
}

template <class T>
std::vector<std::shared_ptr<T>> build_all(
    const std::vector<std::shared_ptr<ComponentOf<T>>>& components) {
  std::vector<std::shared_ptr<T>> built;
  for (const auto& component : components) built.push_back(component->build());
  return built;
}

/// A data set, its loader, and the names of its classes.
struct OpenSet {
  std::shared_ptr<Dataset> dataset;
  std::shared_ptr<Loader> loader;
  std::vector<std::string> class_names;
};

/// UserError if the model's outputs do not fit the data's targets. path: the set's path in the
/// recipe. training: warns of outputs without a class.
void check_targets(const std::string& path, const Dataset& dataset, const Recipe& recipe,
                   const Model& model, bool training) {
  const auto outputs = std::to_string(model.num_classes()),
             setting = "; set model." + recipe.model->name() + ".num_classes";
  const int64_t values = dataset.num_values();
  const bool wants_values = model.objective().takes_values();
  if (values > 0 && !wants_values)
    throw UserError(
        "the targets are values, not classes; set loss: binary_cross_entropy for "
        "labels of 0 and 1, mse or l1 for other numbers");
  if (values == 0 && wants_values) {
    const auto numbers = dataset.number_names();
    throw UserError("the targets are classes, and loss: " + recipe.options.loss +
                    (numbers.empty() ? " needs values; leave loss out, or give data with values"
                                     : " needs numbers; the data have " + first_few(numbers) +
                                           ": name the right ones in targets, or leave loss out"));
  }
  if (values > 0 && values != model.num_classes())
    throw UserError("the data have " + std::to_string(values) +
                    " values for each image, the model " + outputs + " outputs" + setting);
  const auto classes = values > 0 ? std::nullopt : dataset.num_classes();
  if (classes && *classes > model.num_classes()) {
    const auto names = dataset.class_names();
    const auto labels = dataset.num_labels();
    const bool gaps = labels && *labels < *classes;
    const bool from_one = names.empty() && *classes == model.num_classes() + 1;
    throw UserError(
        "the data have " + std::to_string(*classes) + " classes" +
        (gaps ? " by their largest label, and use " + std::to_string(*labels) + " of them" : "") +
        ", the model " + outputs + (names.empty() ? "" : "; the data's are " + first_few(names)) +
        (training ? setting : "; it can be evaluated only on the classes of its training") +
        (from_one ? ", unless labels count from 1: they must count from 0" : ""));
  }
  if (training && classes && *classes < model.num_classes())
    log::warn(path + ": the data have " + std::to_string(*classes) + " classes, the model " +
              outputs + " outputs; the extra ones are never right" + setting);
}

/// A data set to be opened, and its use.
struct SetToOpen {
  std::string path;  ///< the set's path in the recipe, for messages
  std::shared_ptr<Dataset> dataset;
  std::shared_ptr<Dataset> described;  ///< the set that knows targets and classes; may be `dataset`
  LoaderOptions options;
  bool training = false;
  /// Class names of the set, if they are known already.
  std::vector<std::string> class_names{};
  /// Class names that the network was trained on; empty if not known.
  std::vector<std::string> trained{};
};

/// Calls `step`; its UserErrors name `path`.
auto in_place(const std::string& path, const auto& step) {
  try {
    return step();
  } catch (const UserError& error) {
    std::vector<std::string> problems;
    for (const auto& problem : error.problems()) problems.push_back(path + ": " + problem);
    throw UserError(problems);
  }
}

void warn_of_alike_classes(const std::string& path, const std::vector<std::string>& classes) {
  const auto alike = alike_names(classes);
  if (!alike.empty())
    log::warn(path +
              ": has classes whose names differ only in case, in blanks around them or in "
              "Unicode form: " +
              joined(alike, "; ") + "; are they meant to be one?");
}

/// Names of the classes for the set's labels.
std::vector<std::string> classes_of(const SetToOpen& set) {
  auto names = set.class_names.empty() ? set.described->class_names() : set.class_names;
  const bool by_name = !names.empty() && set.dataset->finds_classes_by_name();
  return by_name && are_among(names, set.trained) ? set.trained : names;
}

OpenSet open(const Recipe& recipe, const TrainerParts& parts, const SetToOpen& set) {
  Model& model = *parts.model;
  return in_place(set.path, [&]() -> OpenSet {
    check_targets(set.path, *set.described, recipe, model, set.training);
    auto options = set.options;
    auto class_names = classes_of(set);
    options.class_names = class_names;
    if (set.training) warn_of_alike_classes(set.path, class_names);
    options.pin_memory = recipe.options.dataloader.pin_memory && !parts.device->is_cpu();
    std::shared_ptr<Loader> loader = set.dataset->open(options);
    const auto channels = std::ssize(loader->normalization().mean);
    if (const auto taken = image_channels(model); taken && *taken != channels)
      throw UserError("the images have " + std::to_string(channels) + " channels, model." +
                      recipe.model->name() + " takes " + std::to_string(*taken));
    check_image_size(model, *loader);
    if (const auto warning = image_size_warning(model, loader->image_size()); !warning.empty())
      log::warn(set.path + ": " + warning);
    if (set.training) check_single_samples(model, *loader, recipe.options);
    return {set.dataset, std::move(loader), std::move(class_names)};
  });
}

/// True if the set reads train_dataset's files: in training, and for a split's evaluation.
bool is_of_train_dataset(const Recipe& recipe, bool training) {
  return training || recipe.options.split.val > 0;
}

/// The recipe's path of the set that is trained or evaluated on.
std::string path_of_set(const Recipe& recipe, bool training) {
  const auto& component = training ? recipe.train_dataset : recipe.val_dataset;
  return path_of(
      is_of_train_dataset(recipe, training) ? ChoiceKey::train_dataset : ChoiceKey::val_dataset,
      component->name());
}

/// The text of the component's value for `key`; empty if it has no such key.
std::string text_of(const std::shared_ptr<ComponentOf<Dataset>>& set, const std::string& key) {
  const auto params = write_fields(set->fields());
  const auto* const value = params.find(key);
  return value == nullptr ? "" : value->text;
}

/// Warns that a split divides train/ and does not read val/.
void warn_of_val_not_read(const Recipe& recipe) {
  if (recipe.options.split.val <= 0 || text_of(recipe.train_dataset, "use_ffcv") == "true") return;
  const std::filesystem::path folder = text_of(recipe.train_dataset, "datadir");
  std::error_code none;
  if (!folder.empty() && std::filesystem::is_directory(folder / "train", none) &&
      std::filesystem::is_directory(folder / "val", none))
    log::warn("split: '" + folder.string() +
              "' has val/, which is not read: a part of train/ is evaluated on");
}

/// Warns if evaluated images have a much different size than those of the training.
void warn_of_other_size(const Recipe& recipe, const Loader& evaluated) {
  constexpr double much = 1.8;
  if (!recipe.train_dataset || text_of(recipe.val_dataset, "crop_size").empty()) return;
  const auto text = text_of(recipe.train_dataset, "crop_size");
  const double crop = std::strtod(text.c_str(), nullptr);
  const auto side = static_cast<double>(evaluated.image_size().height);
  if (crop <= 0 || (side < much * crop && crop < much * side)) return;
  const auto path = path_of_set(recipe, false);
  log::warn(path + ": evaluates images of " + std::to_string(evaluated.image_size().height) +
            " pixels, train_dataset has " + text + ": are crop_size and resize_size of " + path +
            " meant?");
}

/// class_names, trained: as in SetToOpen.
OpenSet open(const Recipe& recipe, const TrainerParts& parts, bool training,
             std::vector<std::string> class_names = {}, std::vector<std::string> trained = {}) {
  const auto path = path_of_set(recipe, training);
  const auto dataset = in_place(path, [&] { return build_dataset(recipe, training); });
  // Both sides of a split lie in the training set's files: val/ may not be there.
  const auto described = is_of_train_dataset(recipe, training) == training
                             ? dataset
                             : in_place(path, [&] { return build_dataset(recipe, true); });
  auto set =
      open(recipe, parts,
           {path, dataset, described, loader_options(recipe.options, parts.context, training),
            training, std::move(class_names), std::move(trained)});
  if (training) return set;
  warn_of_val_not_read(recipe);
  warn_of_other_size(recipe, *set.loader);
  return set;
}

std::string path_of(const NamedEvaluation& evaluator) {
  return std::string(evaluators_key) + "." + evaluator.name + ".dataset." +
         evaluator.dataset->name();
}

OpenSet open(const Recipe& recipe, const TrainerParts& parts, const NamedEvaluation& evaluator,
             const std::vector<std::string>& trained) {
  const auto path = path_of(evaluator);
  const auto dataset = in_place(path, [&] { return build_dataset(recipe, *evaluator.dataset); });
  return open(recipe, parts,
              {.path = path,
               .dataset = dataset,
               .described = dataset,
               .options = loader_options(recipe.options, parts.context, evaluator.options),
               .trained = trained});
}

/// The `names` that are not among `others`.
std::vector<std::string> without(std::vector<std::string> names,
                                 const std::vector<std::string>& others) {
  std::erase_if(names,
                [&](const auto& name) { return std::ranges::find(others, name) != others.end(); });
  return names;
}

/// Labels are indices into the list of classes: UserError if the two sets name different classes.
void check_same_classes(const std::string& path, const std::vector<std::string>& trained,
                        const std::vector<std::string>& evaluated) {
  if (trained.empty() || evaluated.empty() || trained == evaluated) return;
  std::vector<std::string> differences;
  auto missing = without(trained, evaluated);
  const auto extra = without(evaluated, trained);
  if (!missing.empty()) differences.push_back("missing: " + first_few(missing));
  if (!extra.empty()) differences.push_back("not in train_dataset: " + first_few(extra));
  missing.insert(missing.end(), extra.begin(), extra.end());
  if (const auto alike = alike_names(missing); !alike.empty())
    differences.push_back("which differ only in case, blanks or Unicode form: " + first_few(alike));
  if (differences.empty()) differences.push_back("in another order");
  throw UserError(path + ": its classes are not those of train_dataset (" +
                  joined(differences, "; ") +
                  "), so that the same label would mean two things; give both the same classes "
                  "(an evaluation's folders, or list of names, may lack some)");
}

/// Outputs are indices into the list of targets: UserError if a target of both sets has two
/// indices. Other names only cause a warning: they may denote the same targets.
void check_same_targets(const std::string& path, const Recipe& recipe,
                        const std::vector<std::string>& trained,
                        const std::vector<std::string>& evaluated) {
  if (trained.empty() || evaluated.empty() || trained == evaluated) return;
  const std::string sides = path + ": its targets are " + first_few(evaluated) +
                            ", those of train_dataset." + recipe.train_dataset->name() + " " +
                            first_few(trained);
  for (size_t i = 0; i < evaluated.size(); ++i) {
    const auto place = std::ranges::find(trained, evaluated[i]) - trained.begin();
    if (place < std::ssize(trained) && place != static_cast<ptrdiff_t>(i))
      throw UserError(sides +
                      ": the same output would mean two things; name the same targets in "
                      "the same order");
  }
  log::warn(sides + ": they are taken to mean the same, in this order");
}

/// Calls check_same_targets() or check_same_classes(), by the model's kind of targets.
void check_same_outputs(const std::string& path, const Recipe& recipe, const Model& model,
                        const std::vector<std::string>& trained,
                        const std::vector<std::string>& evaluated) {
  if (model.objective().takes_values())
    check_same_targets(path, recipe, trained, evaluated);
  else
    check_same_classes(path, trained, evaluated);
}

/// Warns of an evaluation on training samples. path: the evaluation set's path in the recipe.
void warn_of_same_samples(const std::string& path, const DataLocation& trained,
                          const DataLocation& evaluated) {
  std::error_code error;
  const bool same = trained.path == evaluated.path ||
                    std::filesystem::equivalent(trained.path, evaluated.path, error);
  const bool other_rows =
      !trained.rows.empty() && !evaluated.rows.empty() && trained.rows != evaluated.rows;
  if (trained.path.empty() || !same || other_rows) return;
  log::warn(path + ": reads " + shown_path(evaluated.path) +
            ", as train_dataset does: the evaluation uses training images; to use others, give "
            "split.val in place of val_dataset, a datadir with train/ and val/ or, with use_ffcv, "
            "another ffcv_dest");
}

/// Collects problems, so that the user gets all of them at once.
class Complaints {
 public:
  void add(const std::string& problem) { lines_.push_back(problem); }
  template <class Step>
  void collect(const Step& step) {
    try {
      step();
    } catch (const UserError& error) {
      lines_.insert(lines_.end(), error.problems().begin(), error.problems().end());
    }
  }
  void raise() const {
    if (!lines_.empty()) throw UserError(lines_);
  }

 private:
  std::vector<std::string> lines_;
};

/// Adds the recipe's further evaluation sets to `parts`. trained: as in SetToOpen. training:
/// refuses sets with other classes.
void open_evaluators(const Recipe& recipe, TrainerParts& parts,
                     const std::vector<std::string>& trained, bool training,
                     Complaints& complaints) {
  for (const auto& evaluator : recipe.evaluators)
    complaints.collect([&] {
      auto set = open(recipe, parts, evaluator, trained);
      if (training)
        check_same_outputs(path_of(evaluator), recipe, *parts.model, trained, set.class_names);
      parts.evaluators.push_back({evaluator.name, std::move(set.loader),
                                  evaluator.options.eval_interval, std::move(set.class_names)});
    });
}

/// The settings that must be equal on all ranks: the device's type and the recipe without paths,
/// which may differ between machines.
std::vector<std::string> common_settings(const TrainerParts& parts) {
  std::vector<std::string> settings{"device: " + c10::DeviceTypeName(parts.device->type(), true),
                                    "parallelism: " + parts.options.parallelism};
  std::istringstream recipe(parts.recipe);
  for (std::string line; std::getline(recipe, line);)
    if (line.find(": /") == std::string::npos) settings.push_back(line);
  return settings;
}

/// Throws on all ranks a UserError that names the first rank with a problem.
void refuse_rank(const Ranks& ranks, const std::string& problem) {
  const auto problems = ranks.gather(problem);
  for (size_t rank = 0; rank < problems.size(); ++rank)
    if (!problems[rank].empty())
      throw UserError("rank " + std::to_string(rank) + " " + problems[rank]);
}

/// UserError if a rank was started with other settings than the first rank.
void check_same_settings(const TrainerParts& parts) {
  const auto own = common_settings(parts);
  std::istringstream first(parts.ranks.broadcast(joined(own, "\n")));
  std::string line, difference;
  size_t lines = 0;
  for (; difference.empty() && std::getline(first, line); ++lines)
    if (lines == own.size() || own[lines] != line)
      difference =
          "'" + (lines < own.size() ? own[lines] : "nothing") + "' where rank 0 has '" + line + "'";
  if (difference.empty() && lines < own.size())
    difference = "'" + own[lines] + "' where rank 0 has nothing";
  refuse_rank(parts.ranks,
              difference.empty() ? "" : "was started with other settings: " + difference);
}

/// UserError if a rank found other versions of a store's objects than the first rank.
void check_same_data(const Ranks& ranks) {
  const auto own = versions_in_use();
  std::string text;
  for (const auto& [name, version] : own) text += name + '\n' + version + '\n';
  std::istringstream first(ranks.broadcast(text));
  std::vector<std::string> others;
  for (std::string name, version; std::getline(first, name) && std::getline(first, version);)
    if (const auto found = own.find(name); found != own.end() && found->second != version)
      others.push_back(name);
  refuse_rank(ranks, others.empty()
                         ? ""
                         : "finds another version of " + first_few(others) +
                               " than rank 0: it changed while the job started; start again "
                               "once it no longer changes");
}

/// UserError if the ranks cannot divide images. A single process evaluates whole images.
void check_division_of_images(const TrainerOptions& options, const RankEnvironment& environment,
                              bool training) {
  const int64_t ranks = environment.size;
  if (ranks == 1 && !training) return;
  if (const auto problem = spatial_ranks_problem(options.spatial_ranks, ranks); !problem.empty())
    throw UserError(problem);
  check_bad_samples(options);
}

/// Adds a callback that every run has, unless the recipe names it.
template <class T>
void add_unless_named(const std::string& name, TrainerParts& parts) {
  if (std::ranges::find(parts.callbacks, name, &Member<Callback>::name) == parts.callbacks.end())
    parts.callbacks.push_back(
        {name, std::make_shared<T>(typename T::Params{}), subscriptions<T>()});
}

void warn_of_options_without_effect(const DataloaderOptions& options) {
  if (!options.persistent_workers)
    log::warn(
        "dataloader.persistent_workers: false has no effect: workers are threads that live as long "
        "as the run");
  if (options.timeout > 0)
    log::warn("dataloader.timeout: has no effect: a worker's failure ends the wait by itself");
}

void warn_of_profiler_without_effect(const ProfilerOptions& profiler) {
  if (profiler.schedule.active > 0) return;
  ProfilerOptions given = profiler, untouched;
  const auto text = [](ProfilerOptions& options) {
    return one_line(write_fields(collect(options)));
  };
  if (text(given) != text(untouched))
    log::warn(
        "profiler: nothing is traced: schedule.active is 0; add --profile or "
        "profiler.schedule.active (composer trace now traces all the same, with record_shapes and "
        "profile_memory as they are set)");
}

}  // namespace

void check_bad_samples(const TrainerOptions& options) {
  if (options.spatial_ranks > 1 && options.dataloader.on_bad_sample != OnBadSample::error)
    throw UserError(
        "dataloader.on_bad_sample: " + on_bad_sample_word(options.dataloader.on_bad_sample) +
        " cannot be with spatial_ranks: ranks that share an image each read it, and "
        "could leave out different ones; give error "
        "(composer data verify finds the samples), or spatial_ranks: 1");
}

void join(TrainerParts& parts) {
  const auto& environment = parts.context.environment;
  if (!parts.device) parts.device = resolve_device(parts.options.device, environment);
  set_deterministic(parts.options.deterministic_mode);  // NCCL reads the setting when it is opened
  parts.ranks = join_ranks(environment, *parts.device, parts.options.dist_timeout);
  if (parts.ranks.alone()) return;
  check_same_settings(parts);
  check_same_data(parts.ranks);
  parts.ranks = parts.ranks.divided_by_rows(parts.options.spatial_ranks);
  if (parts.options.run_name.empty())
    parts.options.run_name =
        parts.ranks.broadcast(RunFolder(parts.options.run_dir, "", false).run_name());
}

std::vector<std::shared_ptr<Scheduler>> build_schedulers(const Recipe& recipe) {
  return build_all(recipe.schedulers);
}

void check_class_weights(const TrainerOptions& options, const Model& model) {
  if (options.class_weights.given() && options.loss == "auto" &&
      model.loss_name() != "soft_cross_entropy")
    throw UserError("class_weights: the model's loss is " + std::string(model.loss_name()) +
                    ", which has no weights of classes; give loss: cross_entropy, or the model's "
                    "loss_name: soft_cross_entropy");
}

void check_targets(const Recipe& recipe, const Model& model, bool training) {
  const auto path = path_of_set(recipe, training);
  in_place(path, [&] {
    const auto described = build_dataset(recipe, is_of_train_dataset(recipe, training));
    check_targets(path, *described, recipe, model, training);
  });
}

TrainerParts assemble_model(const Recipe& recipe, const RunContext& context) {
  auto undecided = recipe.automatic;
  if (recipe.options.class_weights.follow_from_data()) undecided.push_back("class_weights");
  if (!undecided.empty()) log::info("auto: stand-in values are used here for " + joined(undecided));
  TrainerParts parts(context);
  parts.options = recipe.options;
  use_rank_threads(recipe.options, context);
  parts.device = resolve_device(recipe.options.device, context.environment);
  parts.model = build_model(recipe);
  parts.algorithms = build_members(recipe.algorithms, "algorithms");
  parts.callbacks = build_members(recipe.callbacks, "callbacks");
  parts.recipe = dump_with_absolute_paths(recipe);
  return parts;
}

TrainerParts assemble_evaluation(const Recipe& given, const RunContext& context) {
  const Recipe recipe = resolve_automatic(given, context, Purpose::evaluation).recipe;
  Complaints complaints;
  complaints.collect(
      [&] { check_division_of_images(recipe.options, context.environment, /*training=*/false); });
  std::vector<std::string> trained;
  complaints.collect([&] {
    const auto& path = recipe.options.load_path;
    const auto& remote = recipe.options.remote;
    check_load_path(path, remote);
    if (!path.empty()) trained = read_provenance(weights_file(fetched(path, remote))).class_names;
  });
  if (!recipe.val_dataset && recipe.evaluators.empty())
    complaints.add("val_dataset: missing: there is nothing to evaluate on");
  TrainerParts parts(context);
  complaints.collect([&] { parts = assemble_model(recipe, context); });
  if (recipe.val_dataset && parts.model)
    complaints.collect([&] {
      auto set = open(recipe, parts, false, {}, trained);
      parts.eval_loader = std::move(set.loader);
      parts.class_names = std::move(set.class_names);
    });
  if (parts.model) open_evaluators(recipe, parts, trained, /*training=*/false, complaints);
  complaints.raise();
  join(parts);
  return parts;
}

TrainerParts assemble_training(const Recipe& given, const RunContext& context) {
  const auto resolved = resolve_automatic_for_run(given, context);
  for (const auto& choice : resolved.choices) log::info("auto: " + choice);
  const Recipe& recipe = resolved.recipe;
  warn_of_options_without_effect(recipe.options.dataloader);
  warn_of_profiler_without_effect(recipe.options.profiler);
  const auto options = taken_up(recipe.options, context.environment);
  Complaints complaints;
  complaints.collect([&] {
    if (!goes_on(options)) check_load_path(options.load_path, options.remote);
  });
  complaints.collect([&] { RunFolder(options.run_dir, options.run_name, options.autoresume); });
  complaints.collect(
      [&] { check_division_of_images(options, context.environment, /*training=*/true); });
  TrainerParts parts(context);
  complaints.collect([&] { parts = assemble_model(recipe, context); });
  if (parts.model) complaints.collect([&] { check_class_weights(options, *parts.model); });
  OpenSet trained, evaluated;
  if (parts.model) complaints.collect([&] { trained = open(recipe, parts, true); });
  const bool one_set = options.split.val > 0;
  if (parts.model && recipe.val_dataset && (!one_set || trained.loader))
    complaints.collect([&] {
      const auto& names = trained.class_names;
      evaluated = open(recipe, parts, false, one_set ? names : std::vector<std::string>(), names);
    });
  if (trained.loader && evaluated.loader)
    complaints.collect([&] {
      const auto path = path_of(ChoiceKey::val_dataset, recipe.val_dataset->name());
      check_same_outputs(path, recipe, *parts.model, trained.class_names, evaluated.class_names);
      if (!one_set)
        warn_of_same_samples(path, trained.dataset->location(), evaluated.dataset->location());
    });
  if (parts.model)
    open_evaluators(recipe, parts, trained.class_names, /*training=*/true, complaints);
  complaints.raise();
  add_unless_named<SpeedMonitor>("speed_monitor", parts);
  add_unless_named<ImageMonitor>("image_monitor", parts);
  parts.options = options;
  parts.train_loader = std::move(trained.loader), parts.eval_loader = std::move(evaluated.loader);
  parts.class_names = std::move(trained.class_names);
  parts.optimizer = recipe.optimizer->build();
  parts.schedulers = build_schedulers(recipe);
  parts.loggers = build_all(recipe.loggers);
  join(parts);
  return parts;
}

}  // namespace composer
