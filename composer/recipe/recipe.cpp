#include "composer/recipe/recipe.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "composer/error.h"
#include "composer/recipe/overrides.h"

namespace composer {
namespace {

/// A component named by the recipe or the command line, and the parameters that are written for it.
struct Pick {
  std::string name;
  Value params;
  std::shared_ptr<Component> component;  // null for a name that does not exist
  FieldSet fields;
};

/// A top-level key that chooses components.
struct Slot {
  std::string key;
  const CatalogBase* catalog;
  bool several;
  std::deque<Pick> picks;  // a deque: keys point into it
  bool faulty = false;     // something about it was reported
};

std::vector<Slot> make_slots(const Registry& known) {
  std::vector<Slot> slots;
  const auto add = [&](std::string key, const CatalogBase& catalog, bool several) {
    slots.push_back({std::move(key), &catalog, several, {}});
  };
  add("model", known.models, false);
  add("train_dataset", known.datasets, false);
  add("val_dataset", known.datasets, false);
  add("optimizer", known.optimizers, false);
  add("schedulers", known.schedulers, true);
  add("algorithms", known.algorithms, true);
  add("callbacks", known.callbacks, true);
  add("loggers", known.loggers, true);
  return slots;
}

Value dump_component(Component& component) {
  Value map = Value::map();
  map.set(component.name(), write_fields(component.fields()));
  return map;
}

template <class Base>
Value dump_components(const std::vector<std::shared_ptr<ComponentOf<Base>>>& components) {
  if (components.empty()) return Value::list();
  Value map = Value::map();
  for (const auto& component : components)
    map.set(component->name(), write_fields(component->fields()));
  return map;
}

/// The recipe with every key.
Value tree(const Recipe& recipe) {
  Value root = Value::map();
  const auto one = [&](const char* key, Component* component) {
    if (component) root.set(key, dump_component(*component));
  };
  one("model", recipe.model.get());
  one("train_dataset", recipe.train_dataset.get());
  one("val_dataset", recipe.val_dataset.get());
  one("optimizer", recipe.optimizer.get());
  root.set("schedulers", dump_components(recipe.schedulers));
  root.set("algorithms", dump_components(recipe.algorithms));
  root.set("callbacks", dump_components(recipe.callbacks));
  root.set("loggers", dump_components(recipe.loggers));
  TrainerOptions options = recipe.options;
  Value written = write_fields(collect(options));
  for (auto& [key, origin, value] : written.entries)
    if (key != "run_name" || !options.run_name.empty()) root.set(key, std::move(value));
  return root;
}

/// Resolves one recipe: reads which components are chosen, applies overrides, then reads all
/// parameters.
class Resolver {
 public:
  Resolver(const RecipeFile& file, const std::vector<std::string>& words, const Registry& known)
      : whole_{.file = file.name, .option = {}}, slots_(make_slots(known)) {
    std::optional<Value> root = parse_yaml(file.text, file.name, problems_);
    if (!root) throw UserError(lines(std::move(problems_)));
    root_ = std::move(*root);
    overrides_ = parse_overrides(words, problems_);
    option_fields_ = collect(recipe_.options);
    for (const Slot& slot : slots_) slot_keys_.push_back(slot.key);
  }

  Recipe resolve() {
    for (Slot& slot : slots_) read_slot(slot);
    for (const Override& given : overrides_)
      if (Slot* slot = find_slot(given.key); slot && first_time(given, slot->key))
        select(*slot, given);
    default_optimizer();
    for (Slot& slot : slots_) make_components(slot);
    for (Slot& slot : slots_)
      for (Pick& pick : slot.picks)
        list_keys(pick.fields, slot.key + "." + pick.name, pick.params, {});
    list_keys(option_fields_, "", root_, {});
    for (const Override& given : overrides_)
      if (!find_slot(given.key)) override_value(given);
    read_options();
    for (Slot& slot : slots_)
      for (Pick& pick : slot.picks)
        read_fields(pick.params, pick.fields, slot.key + "." + pick.name, problems_);
    check_presence();
    if (!problems_.empty()) throw UserError(lines(std::move(problems_)));
    take_components();
    check_compatibility();
    return std::move(recipe_);
  }

 private:
  void problem(const Origin& place, std::string path, std::string message) {
    problems_.push_back({place, std::move(path), std::move(message)});
  }

  Slot* find_slot(const std::string& key) {
    const auto found = std::ranges::find(slots_, key, &Slot::key);
    return found == slots_.end() ? nullptr : &*found;
  }

  // --- which components ---

  void read_slot(Slot& slot) {
    const Value* value = root_.find(slot.key);
    if (!value || value->none()) return;
    if (value->kind == Value::Kind::scalar) {
      add_pick(slot, value->text, Value::map(value->origin));
    } else if (value->kind == Value::Kind::map) {
      for (const auto& [name, origin, params] : value->entries)
        add_pick(slot, name, params_of(params, origin));
    } else {
      for (const Value& item : value->items) read_item(slot, item);
    }
    if (!slot.several && slot.picks.size() > 1) {
      std::string names;
      for (const Pick& pick : slot.picks) names += (names.empty() ? "" : ", ") + pick.name;
      problem(value->origin, slot.key,
              "must be one " + slot.catalog->kind() + ", not " + std::to_string(slot.picks.size()) +
                  " (" + names + ")");
      slot.faulty = true;
    }
  }

  void read_item(Slot& slot, const Value& item) {
    if (item.kind == Value::Kind::scalar) return add_pick(slot, item.text, Value::map(item.origin));
    if (item.kind == Value::Kind::map && item.entries.size() == 1) {
      const auto& [name, origin, params] = item.entries[0];
      return add_pick(slot, name, params_of(params, origin));
    }
    problem(item.origin, slot.key,
            "each item must be a name, or a map of one name to its parameters");
    slot.faulty = true;
  }

  static Value params_of(const Value& written, const Origin& name) {
    Value params = written.kind == Value::Kind::null ? Value::map() : written;
    if (params.kind == Value::Kind::map) params.origin = name;
    return params;
  }

  void add_pick(Slot& slot, const std::string& name, Value params) {
    const Origin place = params.origin;
    if (!slot.catalog->contains(name)) {
      problem(place, slot.key,
              "unknown " + slot.catalog->kind() + " '" + name + "'" +
                  suggestion(name, slot.catalog->names()));
      slot.faulty = true;
    } else if (std::ranges::find(slot.picks, name, &Pick::name) != slot.picks.end()) {
      problem(place, slot.key, "'" + name + "' is named twice");
      slot.faulty = true;
    } else {
      slot.picks.push_back({name, std::move(params), nullptr, {}});
    }
  }

  void select(Slot& slot, const Override& given) {
    if (given.words.empty())
      return problem(given.origin, slot.key,
                     slot.several ? "needs names; 'none' is an empty list" : "needs a name");
    if (!slot.several && given.words.size() > 1)
      return problem(given.origin, slot.key,
                     "takes one name, not " + std::to_string(given.words.size()));
    std::deque<Pick> before = std::exchange(slot.picks, {});
    if (given.value().none()) return;
    for (const std::string& name : given.words) {
      const auto old = std::ranges::find(before, name, &Pick::name);
      Value params = Value::map(given.origin);
      const bool first = std::ranges::find(slot.picks, name, &Pick::name) == slot.picks.end();
      if (old != before.end() && first) params = std::move(old->params);
      if (!first) params.origin = given.origin;
      add_pick(slot, name, std::move(params));
    }
  }

  /// What Composer trains with when a recipe names none.
  void default_optimizer() {
    Slot& slot = *find_slot("optimizer");
    if (!slot.picks.empty() || slot.faulty || !slot.catalog->contains("decoupled_sgdw")) return;
    Value params = Value::map(whole_);
    params.set("lr", Value::scalar("0.1", whole_), whole_);
    add_pick(slot, "decoupled_sgdw", std::move(params));
  }

  static void make_components(Slot& slot) {
    for (Pick& pick : slot.picks) {
      pick.component = slot.catalog->find(pick.name);
      pick.fields = pick.component->fields();
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
        keys_.push_back({key, &map, std::move(here), field.list, field.flag});
      else
        list_keys(field.nested, key, map, here);
    }
  }

  bool first_time(const Override& given, const std::string& path) {
    if (given_.insert(path).second) return true;
    problem(given.origin, path, "given twice");
    return false;
  }

  void override_value(const Override& given) {
    std::vector<const RecipeKey*> meant;
    for (const RecipeKey& key : keys_) {
      if (key.path == given.key) meant.assign(1, &key);
      if (key.path == given.key) break;
      if (has_suffix(key.path, given.key)) meant.push_back(&key);
    }
    if (meant.empty()) return problem(given.origin, "", why_unknown(given.key));
    if (meant.size() > 1) {
      std::string all;
      for (const RecipeKey* key : meant) all += (all.empty() ? "--" : ", --") + key->path;
      return problem(given.origin, "", "ambiguous: one of " + all);
    }
    if (first_time(given, meant[0]->path)) apply(given, *meant[0], problems_);
  }

  /// Why no key of this recipe is called `word`.
  std::string why_unknown(const std::string& word) {
    const size_t dot = word.find('.');
    Slot* slot = find_slot(word.substr(0, dot));
    if (slot && dot != std::string::npos) {
      const size_t end = word.find('.', dot + 1);
      const std::string name = word.substr(dot + 1, end == std::string::npos ? end : end - dot - 1);
      if (std::ranges::find(slot->picks, name, &Pick::name) == slot->picks.end())
        return slot->catalog->contains(name) ? how_to_select(*slot, name)
                                             : "unknown " + slot->catalog->kind() + " '" + name +
                                                   "'" + suggestion(name, slot->catalog->names());
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
    if (const std::string elsewhere = not_selected(word); !elsewhere.empty()) return elsewhere;
    std::vector<std::string> paths = slot_keys_;
    for (const RecipeKey& key : keys_) paths.push_back(key.path);
    return unknown_key(word, endings(paths, word));
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

  static std::string how_to_select(const Slot& slot, const std::string& name) {
    std::string command = "--" + slot.key, chosen;
    for (const Pick& pick : slot.picks) {
      if (slot.several) command += " " + pick.name;
      chosen = pick.name;
    }
    const std::string instead = slot.several || chosen.empty() ? "" : " ('" + chosen + "' is)";
    return "the " + slot.catalog->kind() + " '" + name + "' is not selected" + instead +
           "; select it with '" + command + " " + name + "'";
  }

  /// Whether `word` is a key of a component that is registered but not selected; empty if not.
  std::string not_selected(const std::string& word) const {
    for (const Slot& slot : slots_)
      for (const std::string& name : slot.catalog->names()) {
        if (std::ranges::find(slot.picks, name, &Pick::name) != slot.picks.end()) continue;
        const auto component = slot.catalog->find(name);
        for (const FieldDoc& field : describe(component->fields()))
          if (has_suffix(slot.key + "." + name + "." + field.name, word))
            return how_to_select(slot, name);
      }
    return {};
  }

  // --- reading ---

  void read_options() {
    FieldSet all = option_fields_;
    for (const std::string& key : slot_keys_) {
      Field slot;
      slot.name = key;
      slot.read = [](const Value&, const std::string&, Problems&) {};
      all.fields.push_back(std::move(slot));
    }
    read_fields(root_, all, "", problems_);
  }

  void check_presence() {
    for (const char* key : {"model", "train_dataset", "optimizer"})
      if (const Slot& slot = *find_slot(key); slot.picks.empty() && !slot.faulty)
        problem(whole_, key, "missing required key");
    const Value* eval_batch_size = root_.find("eval_batch_size");
    if (!find_slot("val_dataset")->picks.empty() && (!eval_batch_size || eval_batch_size->none()))
      problem(eval_batch_size ? eval_batch_size->origin : whole_, "eval_batch_size",
              "missing required key: val_dataset needs it");
  }

  void take_components() {
    take_one("model", recipe_.model);
    take_one("train_dataset", recipe_.train_dataset);
    take_one("val_dataset", recipe_.val_dataset);
    take_one("optimizer", recipe_.optimizer);
    take_all("schedulers", recipe_.schedulers);
    take_all("algorithms", recipe_.algorithms);
    take_all("callbacks", recipe_.callbacks);
    take_all("loggers", recipe_.loggers);
  }

  void check_compatibility() {
    std::vector<Declared> algorithms;
    for (const Pick& pick : find_slot("algorithms")->picks)
      algorithms.push_back({pick.name, pick.params.origin, pick.component->compatibility()});
    check(algorithms, tree(recipe_), problems_);
    if (!problems_.empty()) throw UserError(lines(std::move(problems_)));
  }

  template <class Base>
  void take_one(const char* key, std::shared_ptr<ComponentOf<Base>>& out) {
    for (Pick& pick : find_slot(key)->picks)
      out = std::static_pointer_cast<ComponentOf<Base>>(pick.component);
  }

  template <class Base>
  void take_all(const char* key, std::vector<std::shared_ptr<ComponentOf<Base>>>& out) {
    for (Pick& pick : find_slot(key)->picks)
      out.push_back(std::static_pointer_cast<ComponentOf<Base>>(pick.component));
  }

  Origin whole_;
  Problems problems_;
  Recipe recipe_;
  FieldSet option_fields_;
  Value root_;
  std::vector<Override> overrides_;
  std::vector<Slot> slots_;
  std::vector<std::string> slot_keys_;
  std::vector<RecipeKey> keys_;
  std::map<std::string, const FieldSet*> groups_;  // dotted path -> the keys below it
  std::set<std::string> given_;                    // paths that an override has set
};

}  // namespace

Recipe resolve(const RecipeFile& file, const std::vector<std::string>& overrides,
               const Registry& known) {
  return Resolver(file, overrides, known).resolve();
}

std::string dump(const Recipe& recipe) { return to_yaml(tree(recipe)); }

}  // namespace composer
