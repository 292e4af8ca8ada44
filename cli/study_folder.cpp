#include "cli/study_folder.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/params/foreign_json.h"
#include "base/params/value.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Keys that a study sets itself, or that do not change a run.
const std::set<std::string> own_keys{"run_name", "run_dir", "autoresume", "progress_bar"};

void flatten(const Value& value, const std::string& path, ordered_json& keys) {
  if (value.kind != Value::Kind::map || value.entries.empty()) {
    if (!own_keys.contains(path)) keys[path] = one_line(value);
    return;
  }
  for (const auto& entry : value.entries)
    flatten(entry.value, path.empty() ? entry.key : path + "." + entry.key, keys);
}

/// The recipe's dotted keys, without secrets.
ordered_json keys_of(const Recipe& recipe) {
  Problems problems;
  ordered_json keys = ordered_json::object();
  if (const auto root = parse_yaml(dump(recipe), "", problems)) flatten(*root, "", keys);
  return keys;
}

using Texts = std::map<std::string, std::string>;

/// The plan as flat keys and values: "options.seeds" and "3".
Texts texts_of(const ordered_json& plan) {
  Texts texts;
  const auto add = [&](const std::string& name, const ordered_json& value) {
    texts[name] = value.is_string() ? value.get<std::string>() : value.dump();
  };
  for (const auto& [part, value] : plan.items()) {
    if (!value.is_object())
      add(part, value);
    else
      for (const auto& [key, one] : value.items()) add(part + "." + key, one);
  }
  return texts;
}

void check_same(const fs::path& file, const ordered_json& there, const ordered_json& now) {
  const auto before = texts_of(there), given = texts_of(now);
  std::vector<std::string> problems;
  const auto text = [](const Texts& texts, const std::string& key) {
    const auto found = texts.find(key);
    return found == texts.end() ? std::string("not there") : found->second;
  };
  std::set<std::string> keys;
  for (const auto* texts : {&before, &given})
    for (const auto& [key, value] : *texts) keys.insert(key);
  for (const auto& key : keys)
    if (text(before, key) != text(given, key))
      problems.push_back(file.string() + ": " + key + ": the study was begun with " +
                         text(before, key) + ", now it is " + text(given, key));
  if (problems.empty()) return;
  problems.push_back(file.parent_path().string() +
                     ": go on with what it was begun with, or give another --output");
  throw UserError(problems);
}

/// The number at the beginning of the file; `otherwise` if there is none.
template <class Number>
Number number_in(const fs::path& file, Number otherwise) {
  std::ifstream in(file);
  Number number = otherwise;
  return in >> number ? number : otherwise;
}

bool has_other_files(const fs::path& folder) {
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const auto name = entry->path().filename().string();
    if (name != ".lock" && name != ".requests") return true;
  }
  return false;
}

std::unique_ptr<Mailbox> claim(const fs::path& folder) {
  const auto refuse_if_owned = [&](bool also_ending) {
    const auto owner = fs::is_directory(folder) ? owner_of(folder) : std::nullopt;
    if (owner && (also_ending || !is_ending(*owner)))
      throw UserError("--output: " + folder.string() + " is in use by " + owner->text() +
                      "; wait for it, or give another --output");
  };
  refuse_if_owned(/*also_ending=*/false);
  try {
    return std::make_unique<Mailbox>(folder);
  } catch (const UserError&) {
    refuse_if_owned(/*also_ending=*/true);
    throw;
  }
}

}  // namespace

StudyFolder::StudyFolder(fs::path folder, const std::string& command, const ordered_json& options,
                         const Recipe& recipe)
    : folder_(std::move(folder)) {
  std::error_code problem;
  if (const auto parent = fs::absolute(folder_).parent_path(); !parent.empty())
    fs::create_directories(parent, problem);
  if (problem)
    throw UserError("--output: " + folder_.string() + " cannot be made: " + problem.message());
  if (fs::exists(folder_) && !fs::is_directory(folder_))
    throw UserError("--output: " + folder_.string() + " is no folder");
  lock_ = claim(folder_);
  for (const auto& folder : {folder_, folder_ / "recipes"})  // of one that was killed
    if (fs::is_directory(folder)) remove_partial_files(folder);
  const ordered_json plan{{"command", command}, {"options", options}, {"recipe", keys_of(recipe)}};
  const auto file = folder_ / "plan.json";
  if (std::ifstream in(file); in) {
    std::ostringstream text;
    text << in.rdbuf();
    const auto there = parse_foreign<ordered_json>(text.str());
    if (!there.is_object()) throw UserError(file.string() + ": is no plan of a study");
    check_same(file, there, plan);
  } else if (has_other_files(folder_)) {
    throw UserError("--output: " + folder_.string() +
                    " has files and no plan.json: it is no study's; give another folder");
  } else {
    try {
      write_whole(file, plan.dump(2) + "\n");
    } catch (const RunError& error) {
      throw UserError("--output: " + std::string(error.what()));
    }
  }
  for (const char* name : {"recipes", "runs", "logs"}) {
    fs::create_directories(folder_ / name, problem);
    if (problem)
      throw UserError("--output: " + (folder_ / name).string() +
                      " cannot be made: " + problem.message());
  }
}

void StudyFolder::write_recipe(const std::string& variant, const Recipe& given) const {
  write_whole(recipe(variant), dump_with_absolute_paths(given));
}

void StudyFolder::note_jobs(const std::string& run, int64_t jobs) const {
  if (jobs > jobs_of(run)) write_whole(log(run, ".jobs"), std::to_string(jobs) + "\n");
}

int64_t StudyFolder::jobs_of(const std::string& run) const {
  return number_in(log(run, ".jobs"), int64_t{1});
}

void StudyFolder::note_others(const std::string& run, double share) const {
  if (share > others_share_of(run)) write_whole(log(run, ".busy"), std::to_string(share) + "\n");
}

double StudyFolder::others_share_of(const std::string& run) const {
  return number_in(log(run, ".busy"), 0.0);
}

std::string recipe_with_secrets(const Recipe& recipe) {
  auto whole = dump_with_absolute_paths(recipe, Secrets::kept);
  return whole == dump_with_absolute_paths(recipe) ? std::string() : whole;
}

}  // namespace composer
