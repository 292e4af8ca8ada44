#include "analysis/run.h"

#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/json_number.h"
#include "base/params/value.h"

namespace composer {
namespace {

LogEntry entry_of(const nlohmann::ordered_json& json) {
  LogEntry entry;
  entry.event = json.at("event").get<std::string>();
  for (const auto& [name, value] : json.items()) {
    if (name == "event") continue;
    if (name == "epoch")
      entry.epoch = value.get<int64_t>();
    else if (name == "batch")
      entry.batch = value.get<int64_t>();
    else if (name == "sample")
      entry.sample = value.get<int64_t>();
    else if (name == "seconds")
      entry.seconds = number_of(value);
    else
      entry.values[name] = number_of(value);
  }
  return entry;
}

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::optional<std::string> text_in(Run& run, const char* name) {
  std::ifstream in(run.folder / name);
  if (!in) {
    run.missing.emplace_back(name);
    return {};
  }
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Thrown for a number out of its range.
struct Senseless {};

/// result = read(the file's JSON). A file that `read` refuses, by an exception of JSON's or by
/// Senseless, is left out.
template <class Result, class Read>
void read_json(Run& run, const char* name, Result& result, const Read& read) {
  const auto text = text_in(run, name);
  if (!text) return;
  const auto is_none = [&] {
    run.damage.push_back((run.folder / name).string() + ": is no " + name + " of a run; left out");
  };
  try {
    result = read(ordered_json::parse(*text));
  } catch (const nlohmann::json::exception&) {
    is_none();
  } catch (const Senseless&) {
    is_none();
  }
}

/// An integer in [least, most]; throws Senseless otherwise.
int64_t integer_of(const ordered_json& json, int64_t least, int64_t most) {
  if (!json.is_number_integer()) throw Senseless();
  const auto number = json.get<int64_t>();
  if (number < least || number > most) throw Senseless();
  return number;
}

RunSummary summary_of(const ordered_json& json) {
  RunSummary summary;
  summary.status = json.at("status"), summary.message = json.value("message", "");
  summary.stopped = json.value("stopped", ""), summary.ended = json.value("ended", "");
  summary.epochs = json.at("epochs"), summary.batches = json.at("batches");
  summary.samples = json.at("samples");
  summary.seconds = number_of(json.at("seconds"));
  summary.samples_per_second = number_of(json.at("samples_per_second"));
  if (const auto wait = json.find("wait_fraction"); wait != json.end() && wait->is_number())
    summary.wait_fraction = wait->get<double>();
  summary.limited_by = json.value("limited_by", "");
  summary.device = json.value("device", ""), summary.precision = json.value("precision", "");
  summary.version = json.value("version", "");
  summary.world_size = json.value("world_size", int64_t{1});
  summary.peak_memory_bytes = json.value("peak_memory_bytes", int64_t{0});
  for (const auto& [name, value] : json.at("metrics").items())
    summary.metrics[name] = number_of(value);
  for (const auto& [name, best] : json.at("best_metrics").items())
    summary.best_metrics[name] = {number_of(best.at("value")), best.at("batch")};
  return summary;
}

RunDescription description_of(const ordered_json& json) {
  RunDescription description;
  description.began = json.value("began", ""), description.host = json.value("host", "");
  description.header = json.at("header");
  description.class_names = json.at("class_names");
  for (const auto& one : json.at("surgery"))
    description.surgery.push_back({one.at("algorithm"), one.at("changes")});
  if (const auto total = json.find("total_batches"); total != json.end() && total->is_number())
    description.total_batches = total->get<int64_t>();
  return description;
}

EvaluationRecord evaluation_of(const ordered_json& json) {
  EvaluationRecord record;
  record.epoch = json.at("epoch"), record.batch = json.at("batch");
  constexpr int64_t most_classes = 10'000'000, most_samples = int64_t{1} << 50;
  record.num_classes = integer_of(json.at("num_classes"), 1, most_classes);
  const auto class_of = [&](const ordered_json& index) {
    return integer_of(index, 0, record.num_classes - 1);
  };
  record.all_ranks = json.at("all_ranks");
  for (const auto& cell : json.at("confusion"))
    record.confusion.push_back(
        {class_of(cell.at(0)), class_of(cell.at(1)), integer_of(cell.at(2), 1, most_samples)});
  for (const auto& one : json.at("wrong")) {
    EvaluationRecord::Wrong wrong{one.at("image").get<std::string>(),
                                  class_of(one.at("class")),
                                  number_of(one.at("loss")),
                                  number_of(one.at("probability")),
                                  {}};
    wrong.path = one.value("path", "");
    if (one.contains("sample")) wrong.sample = integer_of(one.at("sample"), 0, most_samples);
    for (const auto& pair : one.at("likely"))
      wrong.likely.emplace_back(class_of(pair.at(0)), number_of(pair.at(1)));
    record.wrong.push_back(std::move(wrong));
  }
  return record;
}

std::vector<RunImage> images_of(const ordered_json& json) {
  std::vector<RunImage> images;
  for (const auto& one : json.at("images"))
    images.push_back({one.at("file").get<std::string>(), one.value("caption", "")});
  return images;
}

void flatten(const Value& value, const std::string& path, RecipeKeys& keys) {
  if (value.kind != Value::Kind::map || value.entries.empty()) {
    keys.emplace_back(path, value.kind == Value::Kind::map ? "" : one_line(value));
    return;
  }
  for (const auto& entry : value.entries)
    flatten(entry.value, path.empty() ? entry.key : path + "." + entry.key, keys);
}

RecipeKeys keys_of(const std::string& text, const fs::path& file) {
  Problems problems;
  const auto recipe = parse_yaml(text, file.string(), problems);
  if (!recipe || !problems.empty()) throw UserError(lines(problems));
  RecipeKeys keys;
  if (!recipe->entries.empty()) flatten(*recipe, "", keys);
  return keys;
}

/// The last `parts` parts of a path.
std::string tail_of(const fs::path& path, size_t parts) {
  std::vector<fs::path> all(path.begin(), path.end());
  fs::path tail;
  for (size_t i = all.size() - std::min(parts, all.size()); i < all.size(); ++i) tail /= all[i];
  return tail.string();
}

/// The entry of a line; nothing if the line is no entry.
std::optional<LogEntry> read_log_line(const std::string& line) {
  try {
    return entry_of(nlohmann::ordered_json::parse(line));
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

}  // namespace

RunLog read_run_log(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw UserError(file.string() + ": cannot be read; a run's folder has a metrics.jsonl");
  RunLog log;
  int64_t number = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    ++number;
    if (auto entry = read_log_line(line))
      log.entries.push_back(std::move(*entry));
    else if (log.damaged++ == 0)
      log.first_damaged = number;
  }
  if (log.damaged > 0 && log.entries.empty())
    throw UserError(file.string() + ":1: no entry of a run's metrics.jsonl, nor is any other line");
  return log;
}

bool RunLogTail::update(std::vector<LogEntry>& log) {
  struct stat now {};
  if (stat(file_.c_str(), &now) != 0) return false;
  bool changed = false;
  if (now.st_ino != inode_ || now.st_size < position_) {
    changed = !log.empty();
    inode_ = now.st_ino, position_ = 0;
    log.clear();
  }
  std::ifstream in(file_);
  in.seekg(position_);
  for (std::string line; std::getline(in, line) && !in.eof();) {
    position_ += std::ssize(line) + 1;
    auto entry = read_log_line(line);
    if (!entry) continue;
    log.push_back(std::move(*entry));
    changed = true;
  }
  return changed;
}

std::string Run::status() const {
  if (going_on) return "going on";
  return summary ? summary->status : "killed";
}

LogEntry Run::last() const { return log.empty() ? LogEntry() : log.back(); }

std::string Run::class_name(int64_t index) const {
  if (description && index >= 0 && index < std::ssize(description->class_names))
    return description->class_names[static_cast<size_t>(index)];
  return "class " + std::to_string(index);
}

std::string Run::told(const std::string& key) const {
  if (description)
    for (const auto& line : description->header)
      if (line.starts_with(key + ": ")) return line.substr(key.size() + 2);
  return "";
}

Run read_run(const fs::path& folder) {
  auto run = read_run_papers(folder);
  const auto file = run.folder / "metrics.jsonl";
  auto log = read_run_log(file);
  run.log = std::move(log.entries);
  if (log.damaged > 0)
    run.damage.push_back(
        file.string() + ":" + std::to_string(log.first_damaged) +
        ": no entry of a run's metrics.jsonl; " +
        (log.damaged == 1 ? "that line is" : std::to_string(log.damaged) + " such lines are") +
        " left out");
  return run;
}

Run read_run_papers(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw UserError(folder.string() + ": is no folder; a run's folder is <run_dir>/<run_name>");
  Run run;
  run.folder = fs::weakly_canonical(folder);
  run.name = run.folder.filename().string();
  read_json(run, "summary.json", run.summary, summary_of);
  read_json(run, "about.json", run.description, description_of);
  read_json(run, "evaluation.json", run.evaluation, evaluation_of);
  read_json(run, "images/index.json", run.training_images, images_of);
  if (auto text = text_in(run, "hparams.yaml")) {
    try {
      run.recipe = keys_of(*text, run.folder / "hparams.yaml");
      run.recipe_text = std::move(*text);
    } catch (const UserError& error) {
      run.damage.push_back(error.what() + std::string("; left out"));
    }
  }
  return run;
}

void name_apart(std::vector<Run>& runs) {
  const auto distinct = [&] {
    std::set<std::string> names;
    for (const auto& run : runs) names.insert(run.name);
    return names.size() == runs.size();
  };
  for (size_t parts = 2; !distinct() && parts < 20; ++parts)
    for (auto& run : runs) run.name = tail_of(run.folder, parts);
}

}  // namespace composer
