// Traces as programs that show them read them.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace composer {

inline std::string unzipped(const std::filesystem::path& path) {
  std::string text;
  const gzFile file = gzopen(path.c_str(), "rb");
  char block[1 << 16];
  for (int size; file != nullptr && (size = gzread(file, block, sizeof block)) > 0;)
    text.append(block, static_cast<size_t>(size));
  if (file != nullptr) gzclose(file);
  return text;
}

/// A range of one row, in nanoseconds.
struct TraceSlice {
  std::string name, category;
  int64_t row, begin, end;
};

class ReadTrace {
 public:
  explicit ReadTrace(const std::filesystem::path& path)
      : ReadTrace(nlohmann::json::parse(unzipped(path))) {}
  explicit ReadTrace(nlohmann::json json) : json_(std::move(json)) {
    const auto time = [](const nlohmann::json& value) {
      return static_cast<int64_t>(std::llround(value.get<double>() * 1000));
    };
    for (const auto& event : json_.at("traceEvents")) {
      if (event.at("ph") == "M" && event.at("name") == "thread_name")
        row_names_[event.at("tid").get<int64_t>()] = event.at("args").at("name").get<std::string>();
      if (event.at("ph") != "X" || !event.at("tid").is_number()) continue;
      const int64_t begin = time(event.at("ts"));
      slices_.push_back({event.at("name").get<std::string>(), event.at("cat").get<std::string>(),
                         event.at("tid").get<int64_t>(), begin, begin + time(event.at("dur"))});
    }
    std::ranges::sort(slices_, [](const auto& a, const auto& b) {
      return std::tuple(a.row, a.begin, -a.end) < std::tuple(b.row, b.begin, -b.end);
    });
  }

  const nlohmann::json& json() const { return json_; }
  const std::vector<TraceSlice>& slices() const { return slices_; }

  /// "thread 17 (loader 0)".
  std::string row_name(int64_t row) const {
    const auto found = row_names_.find(row);
    return found == row_names_.end() ? "" : found->second;
  }

  /// Of the ranges of that name.
  std::set<std::string> rows_with(const std::string& name) const {
    std::set<std::string> rows;
    for (const auto& slice : slices_)
      if (slice.name == name) rows.insert(row_name(slice.row));
    return rows;
  }

  int64_t count(const std::string& name) const {
    return std::ranges::count(slices_, name, &TraceSlice::name);
  }

  /// Numbers of the steps, in order of time.
  std::vector<int64_t> steps() const {
    std::vector<int64_t> numbers;
    for (const auto& slice : slices_)
      if (slice.name.starts_with("ProfilerStep#"))
        numbers.push_back(std::stoll(slice.name.substr(13)));
    return numbers;
  }

  /// The first two ranges of a row that overlap without one being in the other; empty: none do.
  /// A nanosecond is lost where the file's decimal places become doubles.
  std::string overlap() const {
    std::vector<const TraceSlice*> open;
    for (const auto& slice : slices_) {
      while (!open.empty() &&
             (open.back()->row != slice.row || open.back()->end <= slice.begin + 2))
        open.pop_back();
      if (!open.empty() && open.back()->end + 2 < slice.end)
        return open.back()->name + " and " + slice.name + " on " + row_name(slice.row);
      open.push_back(&slice);
    }
    return "";
  }

  /// Share of a step that lies in named ranges within: the median over the steps, for other
  /// programs may have run in between.
  double covered() const {
    std::vector<double> shares;
    for (const auto& step : slices_) {
      if (!step.name.starts_with("ProfilerStep#")) continue;
      int64_t named = 0, reached = step.begin;
      for (const auto& slice : slices_) {
        if (slice.row != step.row || slice.category != "user_annotation" || &slice == &step)
          continue;
        if (slice.begin < step.begin || slice.end > step.end) continue;
        named += std::max<int64_t>(0, slice.end - std::max(slice.begin, reached));
        reached = std::max(reached, slice.end);
      }
      shares.push_back(static_cast<double>(named) / static_cast<double>(step.end - step.begin));
    }
    std::ranges::sort(shares);
    return shares.empty() ? 0 : shares[shares.size() / 2];
  }

 private:
  nlohmann::json json_;
  std::vector<TraceSlice> slices_;
  std::map<int64_t, std::string> row_names_;
};

}  // namespace composer
