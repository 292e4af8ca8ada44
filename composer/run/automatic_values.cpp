#include "composer/run/automatic_values.h"

#include <array>

#include "base/error.h"
#include "base/files/run_folder.h"
#include "base/files/system_files.h"
#include "base/log.h"
#include "base/name_pattern.h"
#include "base/remote/fetched.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "composer/loop/loader.h"
#include "composer/recipe/automatic.h"
#include "composer/run/build.h"
#include "composer/run/starting_point.h"
#include "nn/optimization/parameter_groups.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr double evaluated_share = 0.2;
constexpr std::array<int64_t, 6> crop_sizes{64, 96, 128, 160, 192, 224};
constexpr int64_t largest_batch = 32, smallest_batch = 8, fewest_batches = 8;
constexpr int64_t batches_in_all = 300, fewest_epochs = 10, most_epochs = 50;
constexpr int64_t longer = 4;  ///< factor of the duration without weights
/// With at least this many classes, pretrained layers suit other images without much change.
constexpr int64_t many_classes = 100;

/// Labels above most_outputs are taken for ids, unless one of fewest_used outputs occurs.
constexpr int64_t most_outputs = 100'000, fewest_used = 10;

/// Learning rates. of_few: with weights of few classes.
struct Rates {
  double with_weights, of_few, without;
};

std::optional<Rates> learning_rates(const std::string& optimizer) {
  for (const char* name : {"adam", "adamw", "decoupled_adamw", "radam"})
    if (optimizer == name) return Rates{3e-4, 1e-3, 1e-3};
  for (const char* name : {"sgd", "decoupled_sgdw"})
    if (optimizer == name) return Rates{0.01, 0.01, 0.1};
  return std::nullopt;
}

/// The weights of load_path, and the parameters of the model that will load them.
struct GivenWeights {
  TensorMap parameters, tensors;  ///< tensors by the model's names
  /// Names of the last layer's parameters, norms before it included.
  std::vector<std::string> last_layer;
  std::string classifier;                ///< name of the last layer's matrix, with a row per class
  std::vector<std::string> class_names;  ///< classes of the weights' training; may be empty
};

std::string module_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

/// Whether an evaluation depends on the key's value.
bool is_evaluated_by(const std::string& key) {
  return key == "split.val" || key.ends_with(".num_classes") || key.ends_with(".crop_size");
}

/// Whether the key's value follows from load_path.
bool is_of_weights(const std::string& key) {
  return key.starts_with("optimizer.") || key.starts_with("load_");
}

class Resolution {
 public:
  Resolution(const Recipe& recipe, const RunContext& context, Purpose purpose,
             const Registry& known)
      : recipe_(recipe),
        context_(context),
        purpose_(purpose),
        known_(known),
        weights_(!recipe.options.load_path.empty()),
        automatic_(recipe.automatic) {
    if (purpose == Purpose::evaluation)
      std::erase_if(automatic_, [](const auto& key) { return !is_evaluated_by(key); });
    Recipe closed = recipe;
    closed.automatic.clear();
    root_ = tree(closed);
  }

  ResolvedRecipe resolve_as(Begun begun) {
    for (const auto& key : automatic_) {
      const auto* const value = find_path(begun.recipe, key);
      if (value == nullptr || (key.starts_with("load_") && !(weights_ && begun.own)))
        undecided_.push_back(key);
      else
        set(key, *value, "as " + begun.source + " has it");
    }
    if (recipe_.options.class_weights.balanced) weigh_as_begun(begun);
    if (std::ranges::find(automatic_, "split.val") != automatic_.end()) evaluate_as_begun(begun);
    return {resolved(), std::move(choices_)};
  }

  ResolvedRecipe resolve_automatic() {
    if (recipe_.automatic.empty() && !weighs_by_data()) return {recipe_, {}};
    try_to("train_dataset." + recipe_.train_dataset->name() + ": ", data_are_named(),
           [this] { look_at_data(); });
    decide("model.*.num_classes", [this](auto& key) { set_classes(key); });
    decide("split.val", [this](auto& key) { set_split(key); });
    decide("train_dataset.*.crop_size", [this](auto& key) { set_crop(key); });
    decide("train_batch_size", [this](auto& key) { set_batch(key); });
    if (!own_part_.empty()) set_eval_batch();
    decide("max_duration", [this](auto& key) { set_duration(key); });
    if (weighs_by_data() && looked_) gather([this] { set_class_weights(); });
    decide("load_weights_only",
           [this](auto& key) { set_with_weights(key, "true", Value::scalar("false")); });
    const auto reads = [](const auto& key) {
      return is_of_weights(key) && key != "load_weights_only";
    };
    if (weights_ && std::ranges::any_of(automatic_, reads))
      weights_read_ = try_to("", true, [this] { look_at_weights(); });
    decide("optimizer.*.lr", [this](auto& key) { set_learning_rate(key); });
    decide("optimizer.*.layer_decay", [this](auto& key) { set_layer_decay(key); });
    decide("optimizer.*.groups", [this](auto& key) { set_groups(key); });
    decide("load_ignore", [this](auto& key) { set_ignored(key); });
    if (!problems_.empty()) throw UserError(problems_);
    return {resolved(), std::move(choices_), std::move(unread_)};
  }

 private:
  Recipe resolved() const {
    auto root = root_;
    for (const auto& key : undecided_) set_path(root, key, Value::scalar("auto"));
    return resolve(std::move(root), known_,
                   {.evaluation = purpose_ == Purpose::evaluation, .options = {}});
  }

  /// Runs step(); false if it throws UserError. The error is a problem, but in a plan a choice, and
  /// in ResolvedRecipe::unread if `named`.
  bool try_to(const std::string& place, bool named, const std::function<void()>& step) try {
    step();
    return true;
  } catch (const UserError& error) {
    std::vector<std::string> problems;
    for (const auto& problem : error.problems()) problems.push_back(place + problem);
    const bool planned = purpose_ == Purpose::plan;
    if (planned) choices_.push_back("not read: " + place + error.what());
    auto& told = planned ? unread_ : problems_;
    if (!planned || named) told.insert(told.end(), problems.begin(), problems.end());
    return false;
  }

  /// Runs step(), and collects its UserError.
  void gather(const std::function<void()>& step) try { step(); } catch (const UserError& error) {
    problems_.insert(problems_.end(), error.problems().begin(), error.problems().end());
  }

  void decide(const std::string& pattern, const std::function<void(const std::string&)>& how) {
    for (const auto& key : automatic_)
      if (const auto* const found = find_automatic(key); found->key == pattern)
        gather([&] { how(key); });
  }

  void set(const std::string& key, Value value, const std::string& reason) {
    choices_.push_back(key + ": " + one_line(value) + ", " + reason);
    set_path(root_, key, std::move(value));
  }

  /// Leaves the key `auto` in a plan, where the data do not determine it.
  void leave(const std::string& key) {
    choices_.push_back(key + ": auto, to be chosen by the data; taken as " +
                       one_line(*find_path(root_, key)) + " here");
    undecided_.push_back(key);
  }

  int64_t number(const std::string& key) { return std::stoll(find_path(root_, key)->text); }

  /// The value of a parameter of train_dataset; empty if there is none.
  std::string param(const std::string& name) {
    const auto* const value =
        find_path(root_, "train_dataset." + recipe_.train_dataset->name() + "." + name);
    return value == nullptr ? "" : value->text;
  }

  /// Whether one of the keys for data is set.
  bool data_are_named() {
    return std::ranges::any_of(std::array{"datadir", "file", "shards"},
                               [this](const char* key) { return !param(key).empty(); });
  }

  bool weighs_by_data() const {
    return purpose_ != Purpose::evaluation && recipe_.options.class_weights.follow_from_data();
  }

  std::string start() const {
    return weights_ ? "for weights are given" : "for no weights are given";
  }

  // --- the data ---

  void look_at_data() {
    const auto asks = [&](const std::string& key) {
      return key == "load_ignore" ? weights_ : !is_of_weights(key);
    };
    if (std::ranges::none_of(automatic_, asks) && !weighs_by_data()) return;
    const auto dataset = build_dataset(recipe_, *recipe_.train_dataset);
    const auto options = loader_options(recipe_.options, context_, true);
    const auto* const telling = dynamic_cast<const TellsFacts*>(dataset.get());
    if (telling != nullptr) facts_ = telling->facts(options);
    // Synthetic data stand for the published data; remote data are the user's own.
    is_elsewhere_ = telling != nullptr && !facts_ && param("use_synthetic") != "true";
    values_ = dataset->num_values();
    names_ = dataset->class_names();
    classes_ = values_ > 0 ? std::optional(values_) : dataset->num_classes();
    if (values_ == 0 && names_.empty()) labels_ = dataset->num_labels();
    if (facts_)
      samples_ = samples_of_all();
    else if (!is_elsewhere_ && param("rows").empty())
      samples_ = dataset->published_samples();
    if (const auto views = param("views"); !views.empty()) views_ = std::stoll(views);
    const auto& split = recipe_.options.split.val;
    looked_ = true;
    if (!samples_ || split == 0 || std::ranges::find(automatic_, "split.val") != automatic_.end())
      return;
    if (facts_)
      take_evaluated(split);
    else
      *samples_ -= std::llround(split * static_cast<double>(*samples_));
  }

  int64_t samples_of_all() const {
    int64_t all = 0;
    for (const auto& [label, samples] : facts_->samples) all += samples;
    return all;
  }

  /// Subtracts the evaluation part of a split from facts_->samples and samples_.
  void take_evaluated(double share) {
    for (auto& [label, samples] : facts_->samples)
      if (samples > 1)
        samples -=
            std::clamp<int64_t>(std::llround(share * static_cast<double>(samples)), 1, samples - 1);
    samples_ = samples_of_all();
  }

  /// UserError for a key that the data do not determine; leave() in a plan without data.
  void not_told(const std::string& key, const std::string& instead) {
    if (!looked_) return leave(key);
    throw UserError(key + ": auto: the data do not tell" +
                    (is_elsewhere_ ? ", as they are not on this machine" : "") + "; give " +
                    instead);
  }

  std::string class_text(int64_t label) const {
    return label < std::ssize(names_) ? names_[static_cast<size_t>(label)] : std::to_string(label);
  }

  /// Checks that numeric labels are class indices, not ids.
  void check_labels(const std::string& key) {
    if (!labels_ || *labels_ >= *classes_) return;
    const auto problem = "the labels go up to " + std::to_string(*classes_ - 1) + ", and " +
                         std::to_string(*labels_) + " of these " + std::to_string(*classes_) +
                         " classes occur";
    if (*classes_ > most_outputs && *labels_ < *classes_ / fewest_used)
      throw UserError(key + ": auto: " + problem +
                      ": ids are no classes; number the classes from 0, or give them names as "
                      "labels; to take labels as they are, give a number");
    log::warn(key + ": auto: " + problem +
              ": the other outputs are never right; classes are numbered from 0 without gaps");
  }

  void set_classes(const std::string& key) {
    if (!classes_) return not_told(key, "a number");
    if (values_ == 0 && *classes_ < 2)
      throw UserError("train_dataset." + recipe_.train_dataset->name() + ": has one class" +
                      (names_.empty() ? "" : ", '" + names_[0] + "'") +
                      "; to tell classes apart takes two or more");
    check_labels(key);
    set(key, Value::scalar(std::to_string(*classes_)),
        values_ > 0 ? "as many as the data have values" : "as many as the data have classes");
  }

  void set_split(const std::string& key) {
    if (!looked_) return leave(key);
    if (!facts_)
      throw UserError(
          key +
          ": auto: this train_dataset does not tell whether it has a part for evaluation; give "
          "a share, or 0 with a val_dataset");
    if (facts_->has_evaluation) {
      set(key, Value::scalar("0"), "for the data have val/, which is evaluated on");
      return evaluate_own_part();
    }
    std::vector<std::string> few;
    for (const auto& [label, samples] : facts_->samples)
      if (samples == 1 && values_ == 0) few.push_back(class_text(label));
    if (!few.empty())
      throw UserError("train_dataset." + recipe_.train_dataset->name() +
                      ": fewer than two images, one to train and one to evaluate on, in " +
                      (few.size() == 1 ? "class " : "classes ") + first_few(few) +
                      "; add some, or take it away; is its name mistyped? With --split.val " +
                      one_line(write_value(evaluated_share)) + " such images are trained on");
    warn_of_unread_parts();
    std::error_code none;
    set(key, write_value(evaluated_share),
        std::string("a fifth of each class, for ") + (fs::is_directory(param("datadir"), none)
                                                          ? "the data have no val/"
                                                          : "no val_dataset is given"));
    take_evaluated(evaluated_share);
  }

  /// Warns of folders beside train/, which may be images for evaluation under another name.
  void warn_of_unread_parts() {
    const fs::path folder = param("datadir");
    std::error_code problem;
    if (!fs::is_directory(folder / "train", problem)) return;
    std::vector<std::string> others;
    for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
         entry.increment(problem)) {
      std::error_code none;
      const auto name = entry->path().filename().string();
      if (name != "train" && !name.starts_with('.') && !is_system_file(name) &&
          entry->is_directory(none))
        others.push_back(name + "/");
    }
    std::ranges::sort(others);
    if (!others.empty())
      log::warn("datadir: '" + folder.string() + "' has " + first_few(others) +
                " beside train/, not read: images to evaluate on belong in val/");
  }

  /// Keeps the class weights of the resumed run, even if its data have changed.
  void weigh_as_begun(const Begun& begun) {
    const auto* const value = begun.recipe.find("class_weights");
    if (value != nullptr && value->kind == Value::Kind::list && !value->items.empty())
      set("class_weights", *value, "as " + begun.source + " has it");
  }

  void set_class_weights() {
    const auto& weights = recipe_.options.class_weights;
    const std::string key = "class_weights", &loss = recipe_.options.loss;
    if (values_ > 0 || (loss != "auto" && loss != "cross_entropy"))
      throw UserError(key + ": are for classes, " +
                      (values_ > 0 ? "the data have values" : "loss: " + loss + " has no weights"));
    if (!classes_ || (weights.balanced && !facts_))
      throw UserError(key + ": the data do not tell " +
                      (classes_ ? "how many samples each class has" : "their classes") +
                      (is_elsewhere_ ? ", as they are not on this machine" : "") +
                      "; give a number for each class");
    std::vector<std::string> classes;
    for (int64_t label = 0; label < *classes_; ++label) classes.push_back(class_text(label));
    auto numbers =
        numbers_of(weights, classes, facts_ ? facts_->samples : std::map<int64_t, int64_t>());
    const auto [least, most] = std::ranges::minmax(numbers);
    // Outputs beyond the classes are never right, and may have any weight.
    if (const auto* const outputs =
            find_path(root_, "model." + recipe_.model->name() + ".num_classes"))
      numbers.resize(std::max(numbers.size(), static_cast<size_t>(std::stoll(outputs->text))), 1);
    set_path(root_, key, write_value(numbers));
    choices_.push_back(key + ": " + one_line(write_value(least)) + " to " +
                       one_line(write_value(most)) + ", as " +
                       (weights.balanced ? "classes have few or many samples" : "they are named"));
  }

  /// Keeps the evaluation set of the resumed run. If it was part of the training data, it moves
  /// with them.
  void evaluate_as_begun(Begun& begun) {
    const auto* const evaluated = begun.recipe.find("val_dataset");
    if (evaluated == nullptr || evaluated->none()) return;
    root_.set("val_dataset", *evaluated);
    const auto place = "." + recipe_.train_dataset->name() + ".datadir";
    const auto *const trained_in = find_path(begun.recipe, "train_dataset" + place),
                      *const evaluated_in = find_path(begun.recipe, "val_dataset" + place);
    const auto now = param("datadir");
    if (trained_in != nullptr && evaluated_in != nullptr && !now.empty() &&
        trained_in->text == evaluated_in->text && now != evaluated_in->text)
      move_evaluation("val_dataset" + place, now, begun.source);
    if (const auto* const size = begun.recipe.find("eval_batch_size");
        size && lacks_eval_batch_size())
      root_.set("eval_batch_size", *size);
  }

  void move_evaluation(const std::string& key, const std::string& datadir,
                       const std::string& source) {
    std::error_code none;
    if (!is_remote(datadir) && fs::is_directory(datadir, none) &&
        !fs::is_directory(fs::path(datadir) / "val", none))
      throw UserError("train_dataset." + recipe_.train_dataset->name() + ": datadir: '" + datadir +
                      "' has no val/, which the run evaluates on by " + source +
                      "; give a folder with train/ and val/");
    set_path(root_, key, Value::string(datadir));
  }

  /// Makes val_dataset the set of train_dataset, with the parameters of a split's evaluation part.
  void evaluate_own_part() {
    const auto name = recipe_.train_dataset->name();
    Value params = *find_path(root_, "train_dataset." + name);
    for (const char* key : {"order", "views", "rows", "transforms"})
      std::erase_if(params.entries, [&](const auto& entry) { return entry.key == key; });
    for (const char* key : {"is_train", "shuffle", "drop_last"})
      params.set(key, Value::scalar("false"));
    Value set = Value::map();
    set.set(name, std::move(params));
    root_.set("val_dataset", std::move(set));
    own_part_ = "val_dataset." + name;
    fit_own_part(number("train_dataset." + name + ".crop_size"));
  }

  /// Sets the image sizes of the chosen val_dataset to those of training.
  void fit_own_part(int64_t crop) {
    if (own_part_.empty()) return;
    set_path(root_, own_part_ + ".crop_size", Value::scalar(std::to_string(crop)));
    const auto resize = recipe_resize();
    set_path(root_, own_part_ + ".resize_size",
             Value::scalar(std::to_string(resize > 0 ? resize : crop * 256 / 224)));
  }

  int64_t recipe_resize() {
    const auto value = param("resize_size");
    return value.empty() ? -1 : std::stoll(value);
  }

  bool lacks_eval_batch_size() {
    const auto* const size = root_.find("eval_batch_size");
    return size == nullptr || size->none();
  }

  /// Sets eval_batch_size if the recipe has none.
  void set_eval_batch() {
    if (lacks_eval_batch_size())
      set("eval_batch_size", *root_.find("train_batch_size"), "as train_batch_size");
  }

  void set_crop(const std::string& key) {
    if (!facts_ || facts_->side == 0) return not_told(key, "a number of pixels");
    int64_t crop = crop_sizes[0];
    for (const auto size : crop_sizes)
      if (size <= facts_->side) crop = size;
    set(key, Value::scalar(std::to_string(crop)),
        std::string(facts_->side < crop ? "the least that is chosen, " : "") +
            "as the shorter sides of " + std::to_string(facts_->looked_at) + " images are about " +
            std::to_string(facts_->side) + " pixels");
    fit_own_part(crop);
  }

  void set_batch(const std::string& key) {
    if (!samples_) return not_told(key, "a number");
    const int64_t images = *samples_ * views_;
    int64_t batch = largest_batch;
    while (batch > smallest_batch && images / batch < fewest_batches) batch /= 2;
    batch = std::max(std::min(batch, images), context_.environment.size * views_);
    batch -= batch % views_;
    set(key, Value::scalar(std::to_string(batch)),
        "for " + std::to_string(images) + " images to train on");
  }

  void set_duration(const std::string& key) {
    if (!samples_) return not_told(key, "a time");
    int64_t batches = std::max<int64_t>(*samples_ * views_ / number("train_batch_size"), 1);
    if (const auto most = recipe_.options.train_subset_num_batches; most > 0)
      batches = std::min(batches, most);
    const int64_t epochs =
        std::clamp((batches_in_all + batches - 1) / batches, fewest_epochs, most_epochs);
    set(key, Value::scalar(std::to_string(weights_ ? epochs : longer * epochs) + "ep"),
        start() + ", and an epoch has " + std::to_string(batches) +
            (batches == 1 ? " batch" : " batches"));
  }

  // --- the weights ---

  void set_learning_rate(const std::string& key) {
    const auto rates = learning_rates(recipe_.optimizer->name());
    if (!rates)
      throw UserError(key +
                      ": auto: is known of adam, adamw, decoupled_adamw, radam, sgd and "
                      "decoupled_sgdw; give a number");
    if (!weights_read_) return undecided_.push_back(key);
    if (const auto few = few_classes()) return set(key, write_value(rates->of_few), of_few(*few));
    set(key, write_value(weights_ ? rates->with_weights : rates->without), start());
  }

  void set_layer_decay(const std::string& key) {
    if (!weights_read_) return undecided_.push_back(key);
    if (const auto few = few_classes()) return set(key, Value::scalar("none"), of_few(*few));
    set_with_weights(key, "0.8", Value::scalar("none"));
  }

  static std::string of_few(int64_t classes) {
    return "for the weights are of " + std::to_string(classes) +
           " classes, few for layers that are of use as they are";
  }

  /// Sets the value for a run with, or without, pretrained weights; the latter is not logged.
  void set_with_weights(const std::string& key, const std::string& with, Value without) {
    if (!weights_) return set_path(root_, key, std::move(without));
    set(key, Value::scalar(with), start());
  }

  bool head_is_frozen() const {
    const auto& frozen = recipe_.options.freeze;
    if (frozen.empty()) return false;
    const auto layers = parameters_by_depth(*build_model(resolved()));
    return !layers.empty() && std::ranges::all_of(layers.back(), [&](const auto& name) {
      return fits_any(name, frozen);
    });
  }

  void set_groups(const std::string& key) {
    Value groups = Value::list();
    if (!weights_ || head_is_frozen()) return set_path(root_, key, std::move(groups));
    groups.items.push_back(write_value(GroupRule{"head", 10}));
    set(key, std::move(groups), start());
  }

  void set_ignored(const std::string& key) {
    Value ignored = Value::list();
    if (!weights_read_) return undecided_.push_back(key);
    if (!given_) return set_path(root_, key, std::move(ignored));
    if (std::ranges::any_of(undecided_,
                            [](const auto& one) { return one.ends_with(".num_classes"); }))
      return leave(key);
    const auto& classes = given_->class_names;
    const bool of_others = !classes.empty() && !names_.empty() && classes != names_;
    for (const auto& name : given_->last_layer)
      if (const auto found = given_->tensors.find(name);
          (of_others && module_of(name) == module_of(given_->classifier)) ||
          found == given_->tensors.end() ||
          found->second.sizes() != given_->parameters.at(name).sizes())
        ignored.items.push_back(Value::string(name));
    const auto& path = recipe_.options.load_path;
    if (ignored.items.empty())
      return set(key, std::move(ignored), "for " + path + " fits all layers");
    set(key, std::move(ignored),
        "the last layer, which starts afresh: in " + path + " it " +
            (of_others ? "is for other classes or another order, " + first_few(classes)
                       : "has another shape or is missing"));
  }

  void look_at_weights() {
    const auto& path = recipe_.options.load_path;
    check_load_path(path, recipe_.options.remote);
    const auto file = weights_file(fetched(path, recipe_.options.remote));
    const bool weights_only = find_path(root_, "load_weights_only")->text == "true";
    if (!weights_only && is_checkpoint(file)) return;  // a run is resumed
    const auto model = build_model(resolved());
    GivenWeights given;
    for (const auto& parameter : model->named_parameters())
      given.parameters[parameter.key()] = parameter.value();
    given.tensors = in_own_names(*model, without_wrapper(*model, read_weights(file), file.string(),
                                                         recipe_.options.load_ignore));
    if (const auto layers = parameters_by_depth(*model); !layers.empty())
      given.last_layer = layers.back();
    for (const auto& name : given.last_layer)
      if (given.parameters.at(name).dim() > 1) given.classifier = name;
    given.class_names = read_provenance(file).class_names;
    given_ = std::move(given);
  }

  /// The number of the weights' classes if it is below many_classes: their layers have more to
  /// learn.
  std::optional<int64_t> few_classes() {
    if (!given_) return {};
    const auto found = given_->tensors.find(given_->classifier);
    if (found == given_->tensors.end() || found->second.dim() == 0) return {};
    const int64_t outputs = found->second.size(0);
    return outputs < many_classes ? std::optional(outputs) : std::nullopt;
  }

  const Recipe& recipe_;
  const RunContext& context_;
  const Purpose purpose_;
  const Registry& known_;
  const bool weights_;
  std::vector<std::string> automatic_;  ///< the keys to resolve
  Value root_;
  std::vector<std::string> choices_, undecided_, unread_, problems_;

  bool looked_ = false;  ///< whether look_at_data() has finished
  std::optional<DataFacts> facts_;
  bool is_elsewhere_ = false;                 ///< the data are not on this machine
  std::optional<int64_t> classes_, samples_;  ///< samples_: the number of training samples
  std::optional<int64_t> labels_;  ///< the number of different labels, if they are numbers
  int64_t views_ = 1;              ///< images per training sample
  int64_t values_ = 0;
  std::vector<std::string> names_;
  bool weights_read_ = true;           ///< load_path has been read, if there is one
  std::optional<GivenWeights> given_;  ///< nothing if a run is resumed
  std::string own_part_;               ///< the path of a chosen val_dataset; else empty
};

Begun read_begun(const std::string& text, const std::string& source, bool own) {
  Problems problems;
  auto recipe = parse_yaml(text, source, problems);
  if (!recipe || !problems.empty()) throw UserError(lines(std::move(problems)));
  return {std::move(*recipe), source, own};
}

/// The recipe of the run to resume: that of a checkpoint in the run's folder, else that of a
/// checkpoint at load_path. Nothing if no run is resumed.
std::optional<Begun> begun_recipe(const Recipe& recipe, const RankEnvironment& environment) {
  const auto options = taken_up(recipe.options, environment);
  if (goes_on(options)) {
    const auto kept = RunFolder(options.run_dir, options.run_name, true).path() / "hparams.yaml";
    if (std::filesystem::exists(kept))
      return read_begun(find_recipe(kept.string()).text, kept.string(), /*own=*/true);
  }
  const bool weights_alone =
      options.load_weights_only ||
      std::ranges::find(recipe.automatic, "load_weights_only") != recipe.automatic.end();
  if (options.load_path.empty() || weights_alone) return {};
  check_load_path(options.load_path, options.remote);
  const auto path = weights_file(fetched(options.load_path, options.remote));
  if (!is_checkpoint(path)) return {};
  const auto text = read_provenance(path).recipe;
  if (text.empty()) return {};
  return read_begun(text, options.load_path, /*own=*/false);
}

}  // namespace

ResolvedRecipe resolve_automatic(const Recipe& recipe, const RunContext& context, Purpose purpose,
                                 const Registry& known) {
  return Resolution(recipe, context, purpose, known).resolve_automatic();
}

ResolvedRecipe resolve_as(const Recipe& recipe, const Begun& begun, const Registry& known) {
  return Resolution(recipe, RunContext(), Purpose::training, known).resolve_as(begun);
}

ResolvedRecipe resolve_automatic_for_run(const Recipe& recipe, const RunContext& context,
                                         Purpose purpose) {
  const bool is_resolved = recipe.automatic.empty() && !recipe.options.class_weights.balanced;
  const auto begun = is_resolved ? std::nullopt : begun_recipe(recipe, context.environment);
  if (!begun) return resolve_automatic(recipe, context, purpose);
  const auto as_begun = resolve_as(recipe, *begun);
  auto resolved = resolve_automatic(as_begun.recipe, context, purpose);
  resolved.choices.insert(resolved.choices.begin(), as_begun.choices.begin(),
                          as_begun.choices.end());
  return resolved;
}

Recipe resolved_with_log(const Recipe& recipe, const RunContext& context) {
  auto resolved = resolve_automatic(recipe, context);
  for (const auto& choice : resolved.choices) log::info("auto: " + choice);
  return std::move(resolved.recipe);
}

}  // namespace composer
