#include "composer/recipe/recipe.h"

#include <deque>
#include <set>

#include "base/error.h"
#include "base/params/utf8.h"
#include "base/text.h"
#include "composer/recipe/automatic.h"
#include "composer/recipe/dataset_keys.h"
#include "composer/recipe/overrides.h"

namespace composer {
namespace {

/// A component named by the recipe or the command line, with its written parameters.
struct Pick {
  std::string name;
  Value params;
  std::shared_ptr<Component> component;  // null for a name that does not exist
  FieldSet fields;
};

/// A top-level key that chooses components, and the chosen components.
struct Choice {
  std::string key;
  const CatalogBase* catalog;
  bool several;
  std::deque<Pick> picks;  // a deque: keys point into it
  bool faulty = false;     // something about it was reported

  bool has(const std::string& name) const {
    return std::ranges::find(picks, name, &Pick::name) != picks.end();
  }
};

/// A key that read_fields() accepts and does not read.
Field known_key(std::string name) {
  Field field;
  field.name = std::move(name);
  field.read = [](const Value&, const std::string&, Problems&) {};
  return field;
}

std::vector<Choice> make_choices(const Registry& known) {
  std::vector<Choice> choices;
#define X(key, kind, several, alters) choices.push_back({#key, &known.kind, several, {}});
  COMPOSER_CHOICES(X)
#undef X
  return choices;
}

/// Sets the origin of all values, and adds to `problems` texts that no file may have.
void take_as_file(Value& value, const Origin& place, Problems& problems) {
  const auto check = [&](const std::string& text) {
    if (find_invalid_utf8(text) != std::string::npos)
      problems.push_back({place, "", "not UTF-8 text"});
  };
  value.origin = place;
  check(value.text);
  for (Value& item : value.items) take_as_file(item, place, problems);
  for (auto& entry : value.entries) {
    entry.origin = place;
    check(entry.key);
    take_as_file(entry.value, place, problems);
  }
}

/// Resolves one recipe: reads which components are chosen, applies overrides, then reads all
/// parameters.
class Resolver {
 public:
  /// problems: those of reading `root`.
  Resolver(Value root, Problems problems, const std::vector<std::string>& words,
           const Registry& known, RecipeUse use)
      : use_(std::move(use)),
        whole_(root.origin),
        problems_(std::move(problems)),
        root_(std::move(root)),
        choices_(make_choices(known)) {
    overrides_ = parse_overrides(words, problems_);
    option_fields_ = collect(recipe_.options);
    for (const Choice& choice : choices_) choice_keys_.push_back(choice.key);
    choice_keys_.emplace_back(evaluators_key);
    read_evaluators();
  }

  Recipe resolve() {
    for (Choice& choice : choices_) read_choice(choice);
    for (const Override& given : overrides_)
      if (Choice* choice = find_choice(given.key); choice && first_time(given, choice->key))
        select(*choice, given);
    default_optimizer();
    default_loggers();
    for (Choice& choice : choices_) make_components(choice);
    for (Choice& choice : choices_)
      for (Pick& pick : choice.picks)
        list_keys(pick.fields, choice.key + "." + pick.name, pick.params, {});
    list_keys(option_fields_, "", root_, {});
    for (size_t i = 0; i < evaluators_.size(); ++i)
      list_keys(evaluator_fields_[i], path_of_set(evaluators_[i].name), root_,
                {evaluators_key, evaluators_[i].name});
    for (const Override& given : overrides_)
      if (!find_choice(given.key) && given.key != evaluators_key) override_value(given);
    for (const RecipeKey& key : keys_) stand_in(key);
    read_options();
    read_components();
    check_presence();
    check_split();
    check_best_set();
    if (!problems_.empty()) throw UserError(lines(std::move(problems_)));
    take_components();
    if (recipe_.options.split.val > 0) split_train_dataset();
    check_compatibility();
    return std::move(recipe_);
  }

 private:
  void problem(const Origin& place, std::string path, std::string message) {
    problems_.push_back({place, std::move(path), std::move(message)});
  }

  Choice& choice_of(ChoiceKey key) { return choices_[static_cast<size_t>(key)]; }

  Choice* find_choice(const std::string& key) {
    const auto found = std::ranges::find(choices_, key, &Choice::key);
    return found == choices_.end() ? nullptr : &*found;
  }

  // --- further sets that are evaluated on ---

  static std::string path_of_set(const std::string& name) {
    return std::string(evaluators_key) + "." + name;
  }

  static bool is_of_set(const Choice& choice) {
    return choice.key.starts_with(evaluators_key) && choice.key.ends_with(".dataset");
  }

  /// Collects the sets of the file and the sets whose dataset is given on the command line.
  /// --evaluators selects among them.
  void read_evaluators() {
    if (const Value* written = root_.find(evaluators_key); written && !written->none()) {
      if (written->kind != Value::Kind::map)
        return problem(written->origin, evaluators_key,
                       "must be a map of names to {dataset: ..., eval_interval: ...}, not " +
                           written->quote());
      for (const auto& [name, origin, set] : written->entries) {
        if (set.kind == Value::Kind::map)
          add_evaluator(name, origin);
        else
          problem(origin, path_of_set(name),
                  "must be a map with a dataset, for instance {dataset: {imagenet: {datadir: ...}}}"
                  ", not " +
                      set.quote());
      }
    }
    for (const Override& given : overrides_) {
      const auto beginning = path_of_set("");
      if (!given.key.starts_with(beginning) || !given.key.ends_with(".dataset")) continue;
      const auto name = given.key.substr(beginning.size(), given.key.size() - beginning.size() - 8);
      if (name.find('.') == std::string::npos && !is_evaluator(name))
        add_evaluator(name, given.origin);
    }
    if (Value* written = root_.find(evaluators_key);
        written && written->none() && !evaluators_.empty())
      *written = Value::map(written->origin);  // overrides of the sets' keys are put into it
    for (const Override& given : overrides_)
      if (given.key == evaluators_key && first_time(given, evaluators_key)) keep_evaluators(given);
    for (auto& evaluator : evaluators_) {
      evaluator_fields_.push_back(collect(evaluator.options));
      choices_.push_back({path_of_set(evaluator.name) + ".dataset",
                          choice_of(ChoiceKey::val_dataset).catalog,
                          false,
                          {}});
    }
  }

  bool is_evaluator(const std::string& name) const {
    return std::ranges::find(evaluators_, name, &NamedEvaluation::name) != evaluators_.end();
  }

  void add_evaluator(const std::string& name, const Origin& origin) {
    if (const auto wrong = evaluator_name_problem(name); !wrong.empty())
      problem(origin, evaluators_key, "'" + name + "' " + wrong);
    else
      evaluators_.push_back({name, nullptr});
  }

  void keep_evaluators(const Override& given) {
    const bool none = given.words.empty() || given.value().none();
    std::vector<std::string> known;
    for (const auto& evaluator : evaluators_) known.push_back(evaluator.name);
    for (const auto& word : none ? std::vector<std::string>() : given.words)
      if (!is_evaluator(word))
        problem(given.origin, evaluators_key,
                "there is no set '" + word + "'" + suggestion(word, known) +
                    "; a new one is given as --evaluators." + word + ".dataset NAME");
    std::set<std::string> before;
    for (const auto& word : given.words)
      if (!before.insert(word).second)
        problem(given.origin, evaluators_key, "'" + word + "' is there twice");
    std::erase_if(evaluators_, [&](const auto& evaluator) {
      return none || std::ranges::find(given.words, evaluator.name) == given.words.end();
    });
    if (Value* written = root_.find(evaluators_key); written && written->kind == Value::Kind::map)
      std::erase_if(written->entries, [&](const auto& entry) { return !is_evaluator(entry.key); });
  }

  // --- which components ---

  void read_choice(Choice& choice) {
    const Value* value = find_path(root_, choice.key);
    if (!value || value->none()) return;
    if (value->kind == Value::Kind::scalar) {
      add_pick(choice, value->text, Value::map(value->origin));
    } else if (value->kind == Value::Kind::map) {
      for (const auto& [name, origin, params] : value->entries)
        add_pick(choice, name, params_of(params, origin));
    } else {
      for (const Value& item : value->items) read_item(choice, item);
    }
    if (!choice.several && choice.picks.size() > 1) {
      std::vector<std::string> names;
      for (const Pick& pick : choice.picks) names.push_back(pick.name);
      problem(value->origin, choice.key,
              "must be one " + choice.catalog->kind() + ", not " + std::to_string(names.size()) +
                  " (" + joined(names) + ")");
      choice.faulty = true;
    }
  }

  void read_item(Choice& choice, const Value& item) {
    if (item.kind == Value::Kind::scalar)
      return add_pick(choice, item.text, Value::map(item.origin));
    if (item.kind == Value::Kind::map && item.entries.size() == 1) {
      const auto& [name, origin, params] = item.entries[0];
      return add_pick(choice, name, params_of(params, origin));
    }
    problem(item.origin, choice.key,
            "each item must be a name, or a map of one name to its parameters");
    choice.faulty = true;
  }

  static Value params_of(const Value& written, const Origin& name) {
    Value params = written.kind == Value::Kind::null ? Value::map() : written;
    if (params.kind == Value::Kind::map) params.origin = name;
    return params;
  }

  void add_pick(Choice& choice, const std::string& name, Value params) {
    const Origin place = params.origin;
    if (!choice.catalog->contains(name)) {
      problem(place, choice.key, unknown_name(choice, name));
      choice.faulty = true;
    } else if (choice.has(name)) {
      problem(place, choice.key, "'" + name + "' is named twice");
      choice.faulty = true;
    } else {
      choice.picks.push_back({name, std::move(params), nullptr, {}});
    }
  }

  static std::string unknown_name(const Choice& choice, const std::string& name) {
    const std::string kind = choice.catalog->kind(), text = "unknown " + kind + " '" + name + "'";
    if (name.find(',') != std::string::npos)
      return text + "; names are separated by spaces, or in a recipe items of a list";
    const std::string lower = lower_case(name);
    const bool logger = choice.catalog->kind() == "logger";
    if (logger && (lower == "wandb" || lower == "mlflow"))
      return text + "; the logger command gives the values to a program of yours: " +
             "docs/loggers.md, and a script for it in examples/loggers";
    for (const auto& known : choice.catalog->names()) {
      if (choice.key != composer::name(ChoiceKey::model) || !name.starts_with(known)) continue;
      const auto fields = choice.catalog->find(known)->fields().fields;
      if (std::ranges::find(fields, "model_name", &Field::name) != fields.end())
        return text + "; did you mean --model " + known + " --model_name " + name + "?";
    }
    const std::string hint = suggestion(name, choice.catalog->names());
    return text +
           (hint.empty() ? "; 'composer list " + choice.catalog->plural() + "' names them" : hint);
  }

  void select(Choice& choice, const Override& given) {
    if (given.words.empty())
      return problem(given.origin, choice.key,
                     choice.several ? "needs names; 'none' is an empty list" : "needs a name");
    if (!choice.several && given.words.size() > 1)
      return problem(given.origin, choice.key,
                     "takes one name, not " + std::to_string(given.words.size()));
    std::deque<Pick> before = std::exchange(choice.picks, {});
    if (given.value().none()) return;
    for (const std::string& name : given.words) {
      const auto old = std::ranges::find(before, name, &Pick::name);
      Value params = Value::map(given.origin);
      const bool first = !choice.has(name);
      if (old != before.end() && first) params = std::move(old->params);
      if (!first) params.origin = given.origin;
      if (!choice.several && old == before.end() && !before.empty())
        leave_open(choice, name, before.front(), params);
      add_pick(choice, name, std::move(params));
    }
  }

  /// Keys that are `auto` for the recipe's component stay `auto` for the component that replaces
  /// it.
  static void leave_open(const Choice& choice, const std::string& name, const Pick& before,
                         Value& params) {
    if (!choice.catalog->contains(name) || before.params.kind != Value::Kind::map) return;
    const auto component = choice.catalog->find(name);
    const auto fields = component->fields().fields;
    for (const auto& [key, origin, value] : before.params.entries)
      if (is_automatic(value) && find_automatic(choice.key + "." + name + "." + key) != nullptr &&
          std::ranges::find(fields, key, &Field::name) != fields.end())
        params.set(key, value, origin);
  }

  /// Adds MosaicML Composer's default if the recipe names no optimizer.
  void default_optimizer() {
    Choice& choice = choice_of(ChoiceKey::optimizer);
    if (!choice.picks.empty() || choice.faulty || !choice.catalog->contains("decoupled_sgdw"))
      return;
    Value params = Value::map(whole_);
    params.set("lr", Value::scalar("0.1", whole_), whole_);
    add_pick(choice, "decoupled_sgdw", std::move(params));
  }

  /// Adds the default loggers if neither the recipe nor the command line names loggers.
  void default_loggers() {
    Choice& choice = choice_of(ChoiceKey::loggers);
    if (root_.find(choice.key) != nullptr || given_.contains(choice.key)) return;
    for (const char* name : {"tensorboard", "report"})
      if (choice.catalog->contains(name)) add_pick(choice, name, Value::map(whole_));
  }

  static void make_components(Choice& choice) {
    for (Pick& pick : choice.picks) {
      pick.component = choice.catalog->find(pick.name);
      pick.fields = pick.component->fields();
      if (choice.key == name(ChoiceKey::val_dataset) || is_of_set(choice))
        set_for_evaluation(pick.fields);
    }
  }

  // --- overrides ---

  void list_keys(const FieldSet& set, const std::string& path, Value& map,
                 const std::vector<std::string>& below) {
    if (!path.empty()) groups_[path] = &set;
    for (const Field& field : set.fields) {
      std::vector<std::string> here = below;
      here.push_back(field.name);
      const std::string key = join_path(path, field.name);
      if (field.read)
        keys_.push_back({key, &map, std::move(here), field.list, field.flag, item_keys(field)});
      else
        list_keys(field.nested, key, map, here);
    }
  }

  /// The keys of each map in a list of maps: "{pattern, lr_scale}"; else empty.
  static std::string item_keys(const Field& field) {
    constexpr std::string_view list = "list of ";
    return field.type.starts_with(std::string(list) + "{") ? field.type.substr(list.size()) : "";
  }

  bool first_time(const Override& given, const std::string& path) {
    if (given_.insert(path).second) return true;
    problem(given.origin, path, "given twice");
    return false;
  }

  void override_value(const Override& given) {
    std::vector<const RecipeKey*> meant;
    for (const RecipeKey& key : keys_) {
      if (key.path == given.key) {
        meant.assign(1, &key);
        break;
      }
      if (has_suffix(key.path, given.key)) meant.push_back(&key);
    }
    if (meant.empty()) return problem(given.origin, "", why_unknown(given));
    if (use_.evaluation) prefer_evaluation(meant);
    if (meant.size() > 1) {
      std::string all;
      for (const RecipeKey* key : meant) all += (all.empty() ? "--" : ", --") + key->path;
      return problem(given.origin, "", "ambiguous: one of " + all);
    }
    if (first_time(given, meant[0]->path)) apply(given, *meant[0], problems_);
  }

  /// Why the recipe has no key of the name in `given`.
  std::string why_unknown(const Override& given) {
    const std::string& word = given.key;
    const size_t dot = word.find('.');
    Choice* choice = find_choice(word.substr(0, dot));
    if (choice && dot != std::string::npos) {
      const size_t end = word.find('.', dot + 1);
      const std::string name = word.substr(dot + 1, end == std::string::npos ? end : end - dot - 1);
      if (!choice->has(name))
        return choice->catalog->contains(name) ? how_to_select(*choice, name)
                                               : unknown_name(*choice, name);
    }
    if (const auto group = groups_.find(word); group != groups_.end())
      return "takes no value" + keys_of(*group->second);
    const size_t last = word.rfind('.');
    const auto parent = groups_.find(word.substr(0, last == std::string::npos ? 0 : last));
    if (parent != groups_.end()) {
      std::vector<std::string> names;
      for (const Field& field : parent->second->fields) names.push_back(field.name);
      return unknown_key(word.substr(last + 1), names);
    }
    std::vector<std::string> paths = choice_keys_;
    for (const RecipeKey& key : keys_) paths.push_back(key.path);
    const auto [option, key] = meant_by(word, given.words, paths);
    if (!option.empty()) return "unknown key; did you mean " + option + "?";
    if (const std::string elsewhere = not_selected(word); !elsewhere.empty()) return elsewhere;
    if (const std::string elsewhere = key.empty() ? "" : not_selected(key); !elsewhere.empty())
      return "unknown key; did you mean '" + key + "'? " + elsewhere;
    auto known = endings(paths, word);
    known.insert(known.end(), use_.options.begin(), use_.options.end());
    return unknown_key(word, known);
  }

  static std::string unknown_key(const std::string& word, const std::vector<std::string>& known) {
    const std::string hint = suggestion(word, known);
    return "unknown key" + (hint.empty() ? "; --dump shows all keys" : hint);
  }

  static std::string keys_of(const FieldSet& set) {
    std::string all;
    for (const Field& field : set.fields) all += (all.empty() ? "; its keys: " : ", ") + field.name;
    return all;
  }

  static std::string how_to_select(const Choice& choice, const std::string& name) {
    std::string command = "--" + choice.key, chosen;
    for (const Pick& pick : choice.picks) {
      if (choice.several) command += " " + pick.name;
      chosen = pick.name;
    }
    const std::string instead = choice.several || chosen.empty() ? "" : " ('" + chosen + "' is)";
    return "the " + choice.catalog->kind() + " '" + name + "' is not selected" + instead +
           "; select it with '" + command + " " + name + "'";
  }

  /// How to select the registered component that `word` names, or that has a key of this name;
  /// empty if there is none.
  std::string not_selected(const std::string& word) const {
    for (const Choice& choice : choices_) {
      std::vector<std::string> takers;
      for (const std::string& name : choice.catalog->names()) {
        if (choice.has(name)) continue;
        const auto component = choice.catalog->find(name);
        const auto fields = describe(component->fields());
        const auto takes = [&](const FieldDoc& field) {
          return has_suffix(choice.key + "." + name + "." + field.name, word);
        };
        if (name == word || std::ranges::any_of(fields, takes)) takers.push_back(name);
      }
      if (takers.size() == 1) return how_to_select(choice, takers[0]);
      if (!takers.empty())
        return "none of these is selected as " + choice.key + ": " + joined(takers);
    }
    return {};
  }

  /// Notes a key that is `auto`, and sets its stand-in value.
  void stand_in(const RecipeKey& key) {
    const auto* const automatic = find_automatic(key.path);
    Value* map = key.map;
    for (size_t i = 0; map != nullptr && i + 1 < key.below.size(); ++i)
      map = map->find(key.below[i]);
    const auto& name = key.below.back();
    Value* const value = automatic == nullptr || map == nullptr ? nullptr : map->find(name);
    if (value == nullptr || !is_automatic(*value)) return;
    if (key.path == "split.val" && !choice_of(ChoiceKey::val_dataset).picks.empty()) {
      value->text = "0";  // another set is evaluated on
      return;
    }
    recipe_.automatic.push_back(key.path);
    if (automatic->stand_in.empty())
      std::erase_if(map->entries, [&](const auto& entry) { return entry.key == name; });
    else
      value->text = automatic->stand_in;
  }

  // --- reading ---

  void read_options() {
    FieldSet all = option_fields_;
    for (const std::string& key : choice_keys_) all.fields.push_back(known_key(key));
    read_fields(root_, all, "", problems_);
    for (size_t i = 0; i < evaluators_.size(); ++i) {
      FieldSet set = evaluator_fields_[i];
      set.fields.push_back(known_key("dataset"));
      const auto path = path_of_set(evaluators_[i].name);
      const Value* written = find_path(root_, path);
      read_fields(written ? *written : Value::map(whole_), set, path, problems_);
    }
  }

  void read_components() {
    for (Choice& choice : choices_) {
      const bool datasets = choice.catalog == choice_of(ChoiceKey::train_dataset).catalog;
      for (Pick& pick : choice.picks) {
        const std::string path = choice.key + "." + pick.name;
        if (datasets) find_data_folders(pick.params, path);
        read_fields(pick.params, pick.fields, path, problems_);
        if (datasets) check_use(choice.key, path, pick.params, pick.fields, problems_);
      }
    }
  }

  void check_presence() {
    for (const auto key : {ChoiceKey::model, ChoiceKey::train_dataset, ChoiceKey::optimizer})
      if (const Choice& choice = choice_of(key); choice.picks.empty() && !choice.faulty)
        problem(whole_, choice.key, "missing required key");
    for (const Choice& choice : choices_)
      if (is_of_set(choice) && choice.picks.empty() && !choice.faulty)
        problem(whole_, choice.key, "missing required key");
    const Value* eval_batch_size = root_.find("eval_batch_size");
    const bool main = !choice_of(ChoiceKey::val_dataset).picks.empty();
    if ((main || !evaluators_.empty()) && (!eval_batch_size || eval_batch_size->none()))
      problem(eval_batch_size ? eval_batch_size->origin : whole_, "eval_batch_size",
              std::string("missing required key: ") + (main ? "val_dataset" : "evaluators") +
                  (main ? " needs it" : " need it"));
  }

  /// Checks that save_best's metric is one of an existing set. Without training there is no best
  /// checkpoint, and sets may be left out.
  void check_best_set() {
    if (use_.evaluation) return;
    const std::string& metric = recipe_.options.save_best;
    const std::string set(evaluation_set(metric));
    if (set.empty() || set == main_evaluation || is_evaluator(set)) return;
    std::vector<std::string> known{std::string(main_evaluation)};
    for (const auto& evaluator : evaluators_) known.push_back(evaluator.name);
    const Value* written = root_.find("save_best");
    problem(
        written ? written->origin : whole_, "save_best",
        "there is no set '" + set + "' that " + metric + " could be of; sets are " + joined(known));
  }

  void check_split() {
    constexpr double most = 0.9;
    if (!use_.evaluation && recipe_.options.split.val > most) {
      const Value* const written = find_path(root_, "split.val");
      problem(written ? written->origin : whole_, "split.val",
              "must be at most 0.9, so that samples are left to train on");
    }
    const Choice& val_dataset = choice_of(ChoiceKey::val_dataset);
    if (recipe_.options.split.val > 0 && !val_dataset.picks.empty())
      problem(val_dataset.picks[0].params.origin, val_dataset.key,
              "must be left out (--val_dataset none) with split, which evaluates on a part of "
              "train_dataset");
  }

  /// Makes val_dataset a copy of train_dataset's set, for evaluation.
  void split_train_dataset() {
    const Choice& training = choice_of(ChoiceKey::train_dataset);
    auto component = training.catalog->find(recipe_.train_dataset->name());
    FieldSet fields = component->fields();
    fields.check = nullptr;  // it may want training's shuffle
    read_fields(write_fields(recipe_.train_dataset->fields()), fields, training.key, problems_);
    set_for_evaluation(fields);
    recipe_.val_dataset = std::static_pointer_cast<ComponentOf<Dataset>>(std::move(component));
  }

  void take_components() {
    for_each_choice(recipe_, [this](ChoiceKey key, auto& chosen) { take(key, chosen); });
    for (auto& evaluator : evaluators_) {
      const Choice& choice = *find_choice(path_of_set(evaluator.name) + ".dataset");
      recipe_.evaluators.push_back(
          {evaluator.name,
           std::static_pointer_cast<ComponentOf<Dataset>>(choice.picks[0].component),
           evaluator.options});
    }
  }

  void check_compatibility() {
    std::vector<Declared> algorithms;
    for (const Pick& pick : choice_of(ChoiceKey::algorithms).picks)
      algorithms.push_back({pick.name, pick.params.origin, pick.component->compatibility()});
    check(algorithms, tree(recipe_), problems_);
    if (!problems_.empty()) throw UserError(lines(std::move(problems_)));
  }

  template <class Base>
  void take(ChoiceKey key, std::shared_ptr<ComponentOf<Base>>& out) {
    for (Pick& pick : choice_of(key).picks)
      out = std::static_pointer_cast<ComponentOf<Base>>(pick.component);
  }

  template <class Base>
  void take(ChoiceKey key, std::vector<std::shared_ptr<ComponentOf<Base>>>& out) {
    for (Pick& pick : choice_of(key).picks)
      out.push_back(std::static_pointer_cast<ComponentOf<Base>>(pick.component));
  }

  RecipeUse use_;
  Origin whole_;
  Problems problems_;
  Recipe recipe_;
  FieldSet option_fields_;
  Value root_;
  std::vector<Override> overrides_;
  std::vector<Choice> choices_;
  std::vector<std::string> choice_keys_;
  std::deque<NamedEvaluation> evaluators_;  // deques: fields and groups point into them
  std::deque<FieldSet> evaluator_fields_;
  std::vector<RecipeKey> keys_;
  std::map<std::string, const FieldSet*> groups_;  // dotted path -> the keys below it
  std::set<std::string> given_;                    // paths that an override has set
};

}  // namespace

std::vector<std::string> algorithm_names(const Recipe& recipe) {
  std::vector<std::string> names;
  for (const auto& algorithm : recipe.algorithms) names.push_back(algorithm->name());
  return names;
}

Recipe resolve(const RecipeFile& file, const std::vector<std::string>& overrides,
               const Registry& known, RecipeUse use) {
  Problems problems;
  auto root = parse_yaml(file.text, file.name, problems);
  if (!root) throw UserError(lines(std::move(problems)));
  return Resolver(std::move(*root), std::move(problems), overrides, known, std::move(use))
      .resolve();
}

Recipe resolve(Value tree, const Registry& known, RecipeUse use) {
  Problems problems;
  take_as_file(tree, {.file = "the recipe", .option = {}}, problems);
  if (!problems.empty()) throw UserError(lines(std::move(problems)));
  return Resolver(std::move(tree), {}, {}, known, std::move(use)).resolve();
}

}  // namespace composer
