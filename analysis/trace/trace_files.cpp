#include "analysis/trace/trace_files.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include "analysis/trace/trace_reader.h"
#include "base/error.h"
#include "base/text.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// The number that begins at `at`.
std::optional<int64_t> number_at(const std::string& text, size_t at) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  return error == std::errc() && number >= 0 ? std::optional(number) : std::nullopt;
}

/// The rank in names such as rank0.120.pt.trace.json, rank-3.json and worker_rank_12.json.
std::optional<int64_t> rank_in_name(const std::string& name) {
  for (size_t at = name.find("rank"); at != std::string::npos; at = name.find("rank", at + 4)) {
    size_t digits = at + 4;
    if (digits < name.size() && (name[digits] == '-' || name[digits] == '_')) ++digits;
    if (const auto rank = number_at(name, digits)) return rank;
  }
  return std::nullopt;
}

struct StepInName {
  int64_t step = -1;     ///< the number before ".pt.trace.json"; -1: none
  std::string in_front;  ///< the name up to the dot before the step; the whole name without a step
};

StepInName step_in_name(const std::string& name) {
  const size_t ending = name.find(".pt.trace.json");
  const size_t dot =
      ending == std::string::npos || ending == 0 ? ending : name.rfind('.', ending - 1);
  const auto step = dot == std::string::npos ? std::nullopt : number_at(name, dot + 1);
  return step ? StepInName{*step, name.substr(0, dot)} : StepInName{-1, name};
}

int64_t step_of(const fs::path& file) { return step_in_name(file.filename()).step; }

bool could_be_trace(const fs::path& file) {
  const auto name = file.filename().string();
  return !name.starts_with('.') && (name.ends_with(".json") || name.ends_with(".json.gz"));
}

[[noreturn]] void refuse(const fs::path& path, const std::error_code& problem) {
  throw UserError(path.string() + ": cannot be read: " + problem.message());
}

bool is_folder(const fs::path& path) {
  std::error_code problem;
  const auto status = fs::status(path, problem);
  if (status.type() == fs::file_type::not_found)
    throw UserError(path.string() + ": does not exist; give a trace or a folder of traces");
  if (problem) refuse(path, problem);
  return fs::is_directory(status);
}

bool is_run(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / "hparams.yaml", none) || fs::exists(folder / "metrics.jsonl", none);
}

std::vector<fs::path> traces_in(const fs::path& folder) {
  std::error_code problem;
  if (is_run(folder) && !fs::exists(folder / "traces", problem))
    throw UserError(folder.string() +
                    ": has no traces/; make one with `composer train --profile`, " +
                    "or of a run that goes on with `composer trace now " + folder.string() + "`");
  const auto inner = fs::is_directory(folder / "traces", problem) ? folder / "traces" : folder;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(inner, problem); !problem && entry != fs::directory_iterator();
       entry.increment(problem)) {
    std::error_code not_a_file;
    if (could_be_trace(entry->path()) && entry->is_regular_file(not_a_file))
      files.push_back(entry->path());
  }
  if (problem) refuse(inner, problem);
  if (files.empty())
    throw UserError(inner.string() + ": has no traces (*.json, *.json.gz); `composer train " +
                    "--profile` writes them to a run's traces/");
  std::ranges::sort(files);
  return files;
}

bool older(const fs::path& one, const fs::path& other) {
  if (const int64_t step = step_of(one), other_step = step_of(other); step != other_step)
    return step < other_step;
  std::error_code ignored;
  return fs::last_write_time(one, ignored) < fs::last_write_time(other, ignored);
}

/// The last step of which each rank has a trace; -1 if there is none.
int64_t last_common_step(const std::map<int64_t, std::vector<fs::path>>& files_by_rank) {
  std::map<int64_t, size_t> ranks_by_step;
  for (const auto& [rank, files] : files_by_rank) {
    std::set<int64_t> steps;
    for (const auto& file : files) steps.insert(step_of(file));
    for (const int64_t step : steps) ++ranks_by_step[step];
  }
  int64_t last = -1;
  for (const auto& [step, ranks] : ranks_by_step)
    if (ranks == files_by_rank.size()) last = step;
  return last;
}

/// The files by rank, and the files without a rank.
class RankedFiles {
 public:
  void add_named(const fs::path& file) {
    const auto rank = rank_of(file);
    if (!rank) {
      unranked_.push_back({file, {file}});
      return;
    }
    auto& files = by_rank_[*rank];
    if (!files.empty())
      throw UserError(file.string() + " and " + files[0].string() + ": are both of rank " +
                      std::to_string(*rank) + "; name one of them");
    files.push_back(file);
  }

  void add_folder(const fs::path& folder) {
    const auto files = traces_in(folder);
    std::vector<std::string> foreign;
    for (const auto& file : files) {
      try {
        add_found(file);
      } catch (const UserError& error) {
        foreign.emplace_back(error.what());
      }
    }
    if (foreign.size() == files.size())
      throw UserError(folder.string() + ": has no traces: " + first_few(foreign));
    for (const auto& reason : foreign) found_.warnings.push_back(reason + "; left out");
  }

  TraceFiles take() {
    int64_t free = 0;
    for (auto& [name, files] : unranked_) {
      while (by_rank_.contains(free)) ++free;
      by_rank_.emplace(free, std::move(files));
    }
    const int64_t step = last_common_step(by_rank_);
    for (const auto& [rank, files] : by_rank_) choose(rank, files, step);
    return std::move(found_);
  }

 private:
  struct Unranked {
    fs::path name;  ///< without the step
    std::vector<fs::path> files;
  };

  static std::optional<int64_t> rank_of(const fs::path& file) {
    const auto rank = rank_in(file);
    return rank ? rank : rank_in_name(file.filename());
  }

  /// Adds a file of a folder. Files come sorted, so that names that differ only in the step are
  /// neighbours.
  void add_found(const fs::path& file) {
    if (const auto rank = rank_of(file)) {
      by_rank_[*rank].push_back(file);
      return;
    }
    const auto name = file.parent_path() / step_in_name(file.filename()).in_front;
    if (unranked_.empty() || unranked_.back().name != name) unranked_.push_back({name, {}});
    unranked_.back().files.push_back(file);
  }

  void choose(int64_t rank, const std::vector<fs::path>& files, int64_t common_step) {
    const auto worse = [&](const fs::path& one, const fs::path& other) {
      const bool common = step_of(one) == common_step, other_common = step_of(other) == common_step;
      return common_step >= 0 && common != other_common ? other_common : older(one, other);
    };
    const auto chosen = std::ranges::max_element(files, worse);
    found_.files.push_back({rank, *chosen});
    for (auto file = files.begin(); file != files.end(); ++file)
      if (file != chosen) found_.left_out.push_back(*file);
  }

  std::map<int64_t, std::vector<fs::path>> by_rank_;
  std::vector<Unranked> unranked_;
  TraceFiles found_;
};

}  // namespace

TraceFiles find_traces(const std::vector<fs::path>& paths) {
  RankedFiles ranked;
  for (const auto& path : paths)
    if (is_folder(path))
      ranked.add_folder(path);
    else
      ranked.add_named(path);
  return ranked.take();
}

}  // namespace composer
