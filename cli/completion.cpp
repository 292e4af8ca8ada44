#include "cli/completion.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/params/params.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/declarations.h"
#include "cli/launch_options.h"
#include "composer/recipe/options.h"
#include "composer/recipe/overrides.h"
#include "composer/recipe/recipe.h"

namespace composer {
namespace {

/// The first clause of `doc` on one line, which a shell shows beside a word.
std::string summary(std::string doc) {
  std::ranges::replace(doc, '\n', ' ');
  doc += ' ';
  return doc.substr(0, std::min({doc.find(". "), doc.find("; "), doc.find(": "), doc.size() - 1}));
}

/// A key that is accepted on the command line as --path.
struct CommandKey {
  std::string path, doc;
  bool list = false;
  Completion values;
};

Completion names_of(const CatalogBase& catalog) {
  Completion names;
  for (const auto& name : catalog.names())
    names.candidates.push_back({name, summary(catalog.doc(name))});
  return names;
}

Completion recipe_names() {
  Completion recipes{.candidates = {}, .files = true};
  for (const auto& recipe : list_recipes())
    recipes.candidates.push_back({recipe.name, summary(recipe.doc)});
  return recipes;
}

Completion words_of(const Words& words, bool files = false) {
  Completion completion{.candidates = {}, .files = files};
  for (const auto& word : words) completion.candidates.push_back({word, ""});
  return completion;
}

Completion values_of(const Field& field) {
  if (field.flag) return words_of({"true", "false"});
  for (const Rule& rule : field.rules)
    if (rule.kind == Rule::Kind::one_of) return words_of(rule.words);
  const bool text = field.type.find(FieldType<std::string>::name()) != std::string::npos;
  return words_of({}, text);
}

void add_keys(const FieldSet& set, const std::string& path, std::vector<CommandKey>& keys) {
  for (const Field& field : set.fields) {
    const std::string key = join_path(path, field.name);
    if (field.read)
      keys.push_back({key, summary(field.doc), field.list, values_of(field)});
    else
      add_keys(field.nested, key, keys);
  }
}

/// The components that the line chooses, by key; its last word, which is being typed, is ignored.
std::map<std::string, Words> choices_on(const Words& line) {
  std::map<std::string, Words> chosen;
  Words* names = nullptr;
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (!line[i].starts_with('-')) {
      if (names != nullptr) names->push_back(line[i]);
      continue;
    }
    const auto option = std::ranges::find_if(choice_facts, [&](const auto& choice) {
      return line[i] == "--" + std::string(choice.key);
    });
    names = option == std::end(choice_facts) ? nullptr : &chosen[std::string(option->key)];
    if (names != nullptr) names->clear();
  }
  return chosen;
}

/// The recipe that the line names, without overrides; empty if it names none or it cannot be
/// resolved.
std::optional<Recipe> recipe_on(const Words& line, const std::string& command) {
  std::string file = are_among({command}, commands_with_quickstart) ? "quickstart" : "";
  for (size_t i = 0; i + 2 < line.size(); ++i)
    if (line[i] == "-f" || line[i] == "--file") file = line[i + 1];
  if (file.empty()) return std::nullopt;
  try {
    return resolve(find_recipe(file));
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::vector<CommandKey> keys_on(const Words& line, const std::string& command) {
  std::vector<CommandKey> keys;
  TrainerOptions options;
  add_keys(collect(options), "", keys);
  const auto recipe = recipe_on(line, command);
  const auto chosen = choices_on(line);
  const auto add = [&](ChoiceKey key, Component& component) {
    add_keys(component.fields(), path_of(key, component.name()), keys);
  };
  const auto add_chosen = [&](ChoiceKey key, const CatalogBase& catalog, const Words& names) {
    for (const auto& name : names)
      if (catalog.contains(name)) add(key, *catalog.find(name));
  };
#define X(key, kind, several, alters)                                                              \
  keys.push_back({#key, several ? "several of them" : "one", several, names_of(registry().kind)}); \
  if (const auto names = chosen.find(#key); names != chosen.end())                                 \
    add_chosen(ChoiceKey::key, registry().kind, names->second);
  COMPOSER_CHOICES(X)
#undef X
  keys.push_back({evaluators_key, "those that stay, or none", true, {}});
  if (!recipe) return keys;
  for_each_choice(*recipe, [&](ChoiceKey key, const auto& components) {
    if (chosen.contains(std::string(name(key)))) return;
    if constexpr (requires { components.size(); }) {
      for (const auto& component : components) add(key, *component);
    } else if (components) {
      add(key, *components);
    }
  });
  for (const auto& evaluator : recipe->evaluators) {
    const auto path = std::string(evaluators_key) + "." + evaluator.name;
    auto options = evaluator.options;
    add_keys(collect(options), path, keys);
    add_keys(evaluator.dataset->fields(), path + ".dataset." + evaluator.dataset->name(), keys);
  }
  return keys;
}

/// The keys that `word` may mean on a command line.
std::vector<const CommandKey*> meant_by(const std::vector<CommandKey>& keys,
                                        const std::string& word) {
  std::vector<const CommandKey*> meant;
  for (const auto& key : keys) {
    if (key.path == word) return {&key};
    if (has_suffix(key.path, word)) meant.push_back(&key);
  }
  return meant;
}

/// Adds the options --path of the keys and, if `word` is long enough, those of unique suffixes.
void add_key_options(const std::vector<CommandKey>& keys, const std::string& word,
                     Completion& completion) {
  std::map<std::string, std::pair<int, std::string>> endings;  // count, documentation
  for (const auto& [path, doc, list, values] : keys) {
    completion.candidates.push_back({"--" + path, doc});
    for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
      auto& [times, of] = endings[path.substr(dot + 1)];
      ++times;
      of = doc;
    }
  }
  constexpr size_t least_letters = 3;
  if (word.size() < least_letters + 2) return;
  for (const auto& [ending, found] : endings)
    if (found.first == 1 && meant_by(keys, ending).size() == 1)
      completion.candidates.push_back({"--" + ending, found.second});
}

Completion values_of(const OptionDoc& option) {
  if (std::ranges::find(option.names, "--file") != option.names.end()) return recipe_names();
  return words_of(option.choices, option.choices.empty() && option.type.starts_with("text"));
}

constexpr const char* help_doc = "says what there is";

/// The command line of one subcommand.
class CommandLine {
 public:
  /// line: the subcommand's name and at least one more word.
  explicit CommandLine(const Words& line)
      // Any other program counts as a trainer.
      : command_(command_table().contains(line[0]) ? line[0] : "train"),
        docs_(declarations_of(command_table().at(command_))),
        rest_(line.begin() + 1, line.end()) {}

  Completion complete() {
    if (docs_.at(0).name != command_) {
      if (rest_.size() == 1) return actions();
      std::erase_if(docs_, [&](const auto& doc) { return doc.name != command_ + " " + rest_[0]; });
      rest_.erase(rest_.begin());
      if (docs_.empty()) return {};
    }
    if (rest_.back().starts_with('-')) return options();
    const auto option = std::ranges::find_if(
        rest_.rbegin(), rest_.rend(), [](const auto& word) { return word.starts_with('-'); });
    if (option != rest_.rend())
      if (const auto values = values_after(*option, option - rest_.rbegin())) return *values;
    return words();
  }

 private:
  Completion actions() const {
    Completion completion;
    if (rest_.back().starts_with('-')) completion.candidates.push_back({"--help", help_doc});
    for (const auto& doc : docs_)
      completion.candidates.push_back({doc.name.substr(command_.size() + 1), summary(doc.about)});
    return completion;
  }

  bool takes_keys() const { return std::ranges::any_of(docs_, &CommandDoc::takes_keys); }

  Completion options() const {
    Completion completion{.candidates = {{"--help", help_doc}}};
    for (const auto& doc : docs_)
      for (const auto& option : doc.options)
        if (!option.positional)
          completion.candidates.push_back({option.names.back(), summary(option.doc)});
    if (takes_keys()) add_key_options(keys_on(rest_, command_), rest_.back(), completion);
    return completion;
  }

  /// The candidates for value `number` (from 1) of the option `name`; empty if the option takes no
  /// such value.
  std::optional<Completion> values_after(const std::string& name, long number) const {
    for (const auto& doc : docs_)
      for (const auto& option : doc.options)
        if (std::ranges::find(option.names, name) != option.names.end()) {
          if (option.type.empty() || (number > 1 && !option.several)) return std::nullopt;
          return values_of(option);
        }
    if (!takes_keys() || !name.starts_with("--")) return std::nullopt;
    const auto keys = keys_on(rest_, command_);
    const auto meant = meant_by(keys, name.substr(2));
    if (meant.empty() || (number > 1 && !meant[0]->list)) return std::nullopt;
    return meant[0]->values;
  }

  /// Candidates for a positional argument, or the options of a command without one.
  Completion words() const {
    if (command_ == "describe" && rest_.size() == 2)
      for (const auto* catalog : registry().catalogs())
        if (rest_[0] == catalog->kind() || rest_[0] == catalog->plural()) return names_of(*catalog);
    std::vector<const OptionDoc*> positionals;
    for (const auto& doc : docs_)
      for (const auto& option : doc.options)
        if (option.positional) positionals.push_back(&option);
    if (positionals.empty()) return options();
    return values_of(*positionals[std::min(rest_.size(), positionals.size()) - 1]);
  }

  std::string command_;
  std::vector<CommandDoc> docs_;
  Words rest_;
};

/// The purpose of a subcommand, or the names of its actions.
std::string about(const std::string& name, const std::vector<CommandDoc>& docs) {
  if (docs.at(0).name == name) return summary(docs[0].about);
  Words actions;
  for (const auto& doc : docs) actions.push_back(doc.name.substr(name.size() + 1));
  return joined(actions);
}

Completion subcommands() {
  Completion completion{.candidates = {}, .files = true};
  for (const auto& [name, command] : command_table())
    completion.candidates.push_back({name, about(name, declarations_of(command))});
  for (const auto& [name, words] : launch_option_words())
    completion.candidates.push_back({name, ""});
  return completion;
}

Completion candidates_for(Words line) {
  const auto& launch = launch_option_words();
  while (line.size() > 1 && launch.contains(line[0])) {
    if (line.size() == 2) return words_of(launch.at(line[0]));
    line.erase(line.begin(), line.begin() + 2);
  }
  return line.size() == 1 ? subcommands() : CommandLine(line).complete();
}

}  // namespace

Completion complete(const Words& given) {
  Words line;
  std::string before;  // the last word up to its =
  for (const auto& word : given.empty() ? Words{""} : given) {
    const size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    before.clear();
    if (equals != std::string::npos) {
      before = word.substr(0, equals + 1);
      line.push_back(word.substr(0, equals));
      line.push_back(word.substr(equals + 1));
    } else if (word != "=") {  // bash splits --key=value into three words
      line.push_back(word);
    }
  }
  if (!given.empty() && given.back() == "=") line.emplace_back();
  Completion completion = candidates_for(line);
  auto& candidates = completion.candidates;
  std::erase_if(candidates, [&](const auto& each) { return !each.word.starts_with(line.back()); });
  std::ranges::stable_sort(candidates, {}, &Completion::Candidate::word);
  const auto same = std::ranges::unique(candidates, {}, &Completion::Candidate::word);
  candidates.erase(same.begin(), same.end());
  for (auto& candidate : candidates) candidate.word.insert(0, before);
  return completion;
}

}  // namespace composer
