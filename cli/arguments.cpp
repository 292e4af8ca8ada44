#include "cli/arguments.h"

#include <initializer_list>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/params/value.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/declarations.h"
#include "cli/run_folder.h"
#include "composer/recipe/overrides.h"
#include "data/beton/source.h"
#include "data/samples/list_file.h"

namespace composer {

namespace {

/// Rewords CLI11's "Could not convert: --steps = abc". All options that CLI11 converts are numbers.
std::string not_a_number(const std::string& text) {
  const std::string before = "Could not convert: ", between = " = ";
  const size_t at = text.find(between);
  if (!text.starts_with(before) || at == std::string::npos) return text;
  return text.substr(before.size(), at - before.size()) + ": must be a number, not '" +
         text.substr(at + between.size()) + "'";
}

/// Why the word is refused; empty if it is known.
std::string none_of(const std::string& word, const Words& known) {
  if (std::ranges::find(known, word) != known.end()) return "";
  return "'" + word + "' is none of " + joined(known) + did_you_mean(word, known);
}

CLI::Validator number_check(const std::string& name, const std::string& range,
                            bool (*fits)(double)) {
  return {[range, fits](const std::string& word) {
            double value = 0;
            return CLI::detail::lexical_cast(word, value) && fits(value) && std::isfinite(value)
                       ? std::string()
                       : "must be a number " + range + ", not " + word;
          },
          name};
}

bool has_weights(const std::string& word) {
  const std::filesystem::path path(word);
  const auto ending = path.extension();
  if (ending == ".pth" || ending == ".pt" || ending == ".ckpt" || ending == ".safetensors")
    return true;
  std::error_code error;
  return std::ranges::any_of(
      std::initializer_list{"manifest.json", "network.json", "checkpoints"},
      [&](const char* name) { return std::filesystem::exists(path / name, error); });
}

/// UserError, with the command line that was meant, when paths of weights or images were given
/// without their options.
void refuse_strays(const CLI::App& app, const Words& words) {
  const bool takes_images = app.get_option_no_throw("--source") != nullptr;
  if (!takes_images && app.get_option_no_throw("--load_path") == nullptr) return;
  const auto left = app.remaining();
  const auto end =
      std::ranges::find_if(left, [](const auto& word) { return word.starts_with('-'); });
  const Words strays(left.begin(), end);
  if (strays.empty() || (!has_weights(strays[0]) && names_recipe(strays[0]))) return;
  std::string command = "composer " + app.get_name();
  for (const auto& word : strays) {
    std::error_code error;
    const bool data = !has_weights(word) && std::filesystem::exists(word, error);
    command += (has_weights(word) ? " --load_path "
                : takes_images    ? " --source "
                : data            ? " --datadir "
                                  : " --load_path ") +
               word;
  }
  if (std::ranges::mismatch(strays, words).in1 == strays.end())
    for (size_t i = strays.size(); i < words.size(); ++i) command += " " + words[i];
  else
    command += " ...";
  throw UserError("'" + strays[0] + "' belongs to no option; did you mean " + command + "?");
}

/// UserError when --file, the option of the recipe, was given twice or a list of images, as if it
/// were the key `file` of a data set.
void check_recipe_option(const CLI::App& app, const Words& words) {
  if (app.get_option_no_throw("--file") == nullptr) return;
  Words files;
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i].starts_with("--file="))
      files.push_back(words[i].substr(words[i].find('=') + 1));
    else if ((words[i] == "-f" || words[i] == "--file") && i + 1 < words.size())
      files.push_back(words[++i]);
  const auto list =
      std::ranges::find_if(files, [](const auto& file) { return is_list_file(file); });
  if (list == files.end() && files.size() < 2) return;
  Words keys;
  for (const auto& set : registry().datasets.names()) {
    const auto component = registry().datasets.find(set);
    const auto fields = component->fields().fields;
    if (std::ranges::find(fields, "file", &Field::name) == fields.end()) continue;
    for (const char* key : {"--train_dataset.", "--val_dataset."})
      keys.push_back(key + set + ".file");
  }
  throw UserError("composer " + app.get_name() + ": --file is the recipe, as -f is" +
                  (list == files.end() ? ", and is given once" : ", and '" + *list + "' is none") +
                  (keys.empty() ? "" : "; the file of a data set is " + joined(keys, " or ")));
}

/// The words of a command line that trains on a folder of images, a list or a .beton file.
std::string words_for(const std::string& data) {
  return is_list_file(data) ? "--train_dataset image_list --train_dataset.image_list.file " + data
                            : "--datadir " + data;
}

/// Whether the path holds images to train on.
bool is_own_data(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return !is_run(path);
  return std::filesystem::exists(path, error) && (is_list_file(path) || is_beton(path));
}

/// The data that the words name, if the recipe is the quickstart by default, which draws its own
/// images.
std::optional<std::string> data_for_quickstart(const CLI::App& app, const Words& words) {
  if (app.get_option("--file")->count() > 0 ||
      !are_among({app.get_name()}, commands_with_quickstart))
    return {};
  std::optional<std::string> data;
  Problems ignored;
  for (const auto& given : parse_overrides(words, ignored)) {
    if (given.key.starts_with("train_dataset") || given.key.starts_with("val_dataset")) return {};
    if (given.words.size() == 1 &&
        (given.key == "datadir" || meant_by(given.key, given.words, {}).key == "datadir"))
      data = given.words[0];
  }
  return data;
}

}  // namespace

bool parse(CLI::App& app, const Words& words) {
  if (declares()) {
    declare(app);
    return false;
  }
  check_recipe_option(app, words);
  try {
    app.parse(Words(words.rbegin(), words.rend()));
    refuse_strays(app, words);
    return true;
  } catch (const CLI::CallForHelp&) {
    std::cout << wrapped_for(STDOUT_FILENO, app.help());
    return false;
  } catch (const CLI::ConversionError& problem) {
    throw UserError("composer " + app.get_name() + ": " + not_a_number(problem.what()));
  } catch (const CLI::RequiredError& problem) {
    refuse_strays(app, words);
    throw UserError("composer " + app.get_name() + ": " + problem.what());
  } catch (const CLI::ExtrasError&) {
    refuse_strays(app, words);
    const auto words_left = app.remaining();
    const auto option = std::ranges::find_if(
        words_left, [](const auto& word) { return word.starts_with('-') && word.size() > 1; });
    const auto& left = option == words_left.end() ? words_left.front() : *option;
    const auto word = left.substr(0, option == words_left.end() ? left.npos : left.find('='));
    Words known;
    for (const auto& name : option_names(app)) known.push_back("--" + name);
    throw UserError("composer " + app.get_name() + ": '" + word + "' is not expected" +
                    (option == words_left.end() ? "" : suggestion(word, known)));
  } catch (const CLI::ParseError& problem) {
    throw UserError("composer " + app.get_name() + ": " + problem.what());
  }
}

CLI::Validator positive() {
  return number_check("POSITIVE", "above 0", [](double value) { return value > 0; });
}

CLI::Validator not_negative() {
  return number_check("NONNEGATIVE", "of at least 0", [](double value) { return value >= 0; });
}

CLI::Validator word_of(const Words& words) {
  return {[words](const std::string& word) { return none_of(word, words); },
          "{" + joined(words, ",") + "}"};
}

CLI::Validator choices(const Words& words) {
  return {[](const std::string&) { return std::string(); }, "{" + joined(words, ",") + "}"};
}

Words option_names(const CLI::App& app) {
  Words names;
  for (const auto* option : app.get_options())
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  return names;
}

CLI::Option* add_recipe(CLI::App& app, std::string& file, const std::string& otherwise) {
  app.allow_extras();
  app.footer("Any key of the recipe can be given as --dotted.key VALUE.");
  return app.add_option("-f,--file", file,
                        "recipe: a path, or a name from `composer list recipes`" +
                            (otherwise.empty() ? "" : " (default: " + otherwise + ")"));
}

const CLI::Option& add_json(CLI::App& app, const std::string& what) {
  return *app.add_flag("--json")->disable_flag_override()->description(what);
}

Recipe recipe_of(const CLI::App& app, const std::string& file) {
  return resolve(find_recipe(file), overrides_of(app), registry(), {.options = option_names(app)});
}

void leave_no_run(TrainerOptions& options) {
  options.run_dir.clear(), options.run_name.clear();
  options.save_remote.clear(), options.save_best.clear();
  options.autoresume = false;
}

void check_alone(const std::string& command, const RankEnvironment& environment) {
  if (environment.size > 1)
    throw UserError(command + ": works in one process, not in " + std::to_string(environment.size) +
                    " ranks; start it without -n");
}

std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Words overrides_of(const CLI::App& app) {
  auto words = app.remaining();
  const std::string command = "composer " + app.get_name() + " -f ";
  if (const auto data = data_for_quickstart(app, words))
    throw UserError("the quickstart draws its own images; for those of " + *data + ": " + command +
                    "finetune " + words_for(*data));
  if (words.empty() || words[0].starts_with('-')) return words;
  if (app.get_option("--file")->count() == 0 && names_recipe(words[0]))
    throw UserError("'" + words[0] + "' is a recipe: " + command + words[0]);
  if (app.get_name() == "train" && is_own_data(words[0]))
    throw UserError("'" + words[0] + "' has images to train on: " + command + "finetune " +
                    words_for(words[0]));
  return words;
}

void check_word(const std::string& option, const std::string& word, const Words& known) {
  if (const auto problem = none_of(word, known); !problem.empty())
    throw UserError(option + ": " + problem);
}

int dispatch(const std::string& command, const CommandTable& table, const Words& words) {
  if (declares()) {
    for (const auto& [name, action] : table) action({});
    return 0;
  }
  const std::string word = words.empty() ? "" : words[0];
  if (const auto chosen = table.find(word); chosen != table.end())
    return chosen->second(Words(words.begin() + 1, words.end()));
  const auto names = names_in(table);
  const auto all = joined(names);
  if (word == "--help" || word == "-h") {
    std::cout << "composer " << command << " ACTION: one of " << all << "; `composer " << command
              << " ACTION --help` says more\n";
    return 0;
  }
  if (word.empty()) throw UserError("composer " + command + ": which action? There are: " + all);
  throw UserError("composer " + command + ": unknown action '" + word + "'" +
                  suggestion(word, names));
}

}  // namespace composer
