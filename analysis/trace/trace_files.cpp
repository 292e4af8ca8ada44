#include "analysis/trace/trace_files.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "analysis/trace/trace_reader.h"
#include "composer/error.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// The number that begins at `at`.
std::optional<int64_t> number_at(const std::string& text, size_t at) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  return error == std::errc() && number >= 0 ? std::optional(number) : std::nullopt;
}

/// As in rank0.120.pt.trace.json, rank-3.json and worker_rank_12.json.
std::optional<int64_t> rank_in_name(const std::string& name) {
  for (size_t at = name.find("rank"); at != std::string::npos; at = name.find("rank", at + 4)) {
    size_t digits = at + 4;
    if (digits < name.size() && (name[digits] == '-' || name[digits] == '_')) ++digits;
    if (const auto rank = number_at(name, digits)) return rank;
  }
  return std::nullopt;
}

/// The number in front of ".pt.trace.json"; -1 where there is none.
int64_t step_in_name(const std::string& name) {
  const size_t ending = name.find(".pt.trace.json");
  if (ending == std::string::npos || ending == 0) return -1;
  const size_t dot = name.rfind('.', ending - 1);
  const auto step = dot == std::string::npos ? std::nullopt : number_at(name, dot + 1);
  return step.value_or(-1);
}

bool could_be_trace(const fs::path& file) {
  const auto name = file.filename().string();
  return name.ends_with(".json") || name.ends_with(".json.gz");
}

std::vector<fs::path> traces_in(const fs::path& folder) {
  const auto inner = fs::is_directory(folder / "traces") ? folder / "traces" : folder;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(inner))
    if (entry.is_regular_file() && could_be_trace(entry.path())) files.push_back(entry.path());
  if (files.empty())
    throw UserError(inner.string() + ": has no traces (*.json, *.json.gz); `composer train " +
                    "--profile` writes them to a run's traces/");
  std::ranges::sort(files);
  return files;
}

bool older(const fs::path& one, const fs::path& other) {
  const int64_t step = step_in_name(one.filename()), other_step = step_in_name(other.filename());
  if (step != other_step) return step < other_step;
  return fs::last_write_time(one) < fs::last_write_time(other);
}

/// Files of ranks, and those whose rank nothing tells.
class RankedFiles {
 public:
  void add(const fs::path& file, bool named) {
    auto rank = rank_in(file);
    if (!rank) rank = rank_in_name(file.filename());
    if (!rank) {
      unranked_.push_back(file);
      return;
    }
    const auto [place, is_new] = by_rank_.try_emplace(*rank, file);
    if (is_new) return;
    if (named)
      throw UserError(file.string() + " and " + place->second.string() + ": are both of rank " +
                      std::to_string(*rank) + "; name one of them");
    older_.push_back(older(place->second, file) ? std::exchange(place->second, file) : file);
  }

  TraceFiles take() {
    int64_t free = 0;
    for (const auto& file : unranked_) {
      while (by_rank_.contains(free)) ++free;
      by_rank_.emplace(free, file);
    }
    TraceFiles found;
    for (const auto& [rank, file] : by_rank_) found.files.push_back({rank, file});
    found.older = std::move(older_);
    return found;
  }

 private:
  std::map<int64_t, fs::path> by_rank_;
  std::vector<fs::path> unranked_, older_;
};

}  // namespace

TraceFiles find_traces(const std::vector<fs::path>& paths) {
  RankedFiles ranked;
  for (const auto& path : paths) {
    if (fs::is_directory(path)) {
      for (const auto& file : traces_in(path)) ranked.add(file, false);
    } else if (fs::exists(path)) {
      ranked.add(path, true);
    } else {
      throw UserError(path.string() + ": is not there; a trace or a folder of traces");
    }
  }
  return ranked.take();
}

}  // namespace composer
