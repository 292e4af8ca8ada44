#include "cli/sweep_axes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "base/url_secrets.h"
#include "composer/recipe/overrides.h"

namespace composer {
namespace {

constexpr int64_t most_points = 10'000, halving = 3;

/// Parses the word of one option from left to right.
class ValueReader {
 public:
  ValueReader(const std::string& key, const std::string& text) : key_(key), text_(text) {}

  std::vector<Words> read() {
    std::vector<Words> values;
    for (;;) {
      values.push_back(value());
      if (at_ == text_.size()) return values;
      if (text_[at_] != ',') fail("after a value there must be a comma");
      ++at_;
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError("--" + key_ + ": '" + text_ + "': " + what);
  }

  Words value() {
    if (at_ == text_.size() || text_[at_] == ',') fail("a value is empty");
    if (text_[at_] != '[') return {word(",")};
    ++at_;
    Words words;
    for (;;) {
      while (at_ < text_.size() && text_[at_] == ' ') ++at_;
      if (at_ == text_.size()) fail("'[' is not closed");
      if (text_[at_] == ']') break;
      words.push_back(word(" ]"));
    }
    ++at_;
    if (words.empty()) fail("[] is empty; write none for an empty list");
    return words;
  }

  /// The text up to one of `ends`, or between quotes.
  std::string word(const std::string& ends) {
    const char quote = text_[at_];
    if (quote == '\'' || quote == '"') {
      const size_t end = text_.find(quote, at_ + 1);
      if (end == std::string::npos) fail(std::string(1, quote) + " is not closed");
      const auto inner = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      return inner;
    }
    const size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    const auto inner = text_.substr(at_, end - at_);
    at_ = end;
    return inner;
  }

  const std::string& key_;
  const std::string& text_;
  size_t at_ = 0;
};

/// Empty if `text` is not two numbers around "..".
std::optional<SweepAxis::Range> range_in(const std::string& key, const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return {};
  const auto low_text = text.substr(0, dots), high_text = text.substr(dots + 2);
  const auto low = to_number<double>(low_text), high = to_number<double>(high_text);
  if (!low || !high) return {};
  if (!(*low > 0) || !(*high > *low) || !std::isfinite(*high))
    throw UserError("--" + key + ": '" + text +
                    "' is no range: values are drawn on a logarithmic scale; give LOW..HIGH with "
                    "0 < LOW < HIGH");
  const auto is_whole = [](const std::string& number) {
    return number.find_first_not_of("0123456789") == std::string::npos;
  };
  return SweepAxis::Range{*low, *high, is_whole(low_text) && is_whole(high_text)};
}

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

Words draw(const SweepAxis& axis, Random& random) {
  if (!axis.range) return axis.values[static_cast<size_t>(random.below(std::ssize(axis.values)))];
  const auto& [low, high, whole] = *axis.range;
  const double value = std::exp(random.uniform(std::log(low), std::log(high)));
  return {whole ? std::to_string(std::llround(value)) : text_of(value)};
}

void add_option(const std::string& key, const Words& value, Words& words) {
  if (value.size() == 1) {
    words.push_back("--" + key + "=" + value[0]);
    return;
  }
  words.push_back("--" + key);
  words.insert(words.end(), value.begin(), value.end());
}

int64_t size_of(const std::vector<SweepAxis>& axes) {
  int64_t size = 1;
  for (const auto& axis : axes) size = std::min(size * std::ssize(axis.values), most_points + 1);
  return size;
}

bool any_range(const std::vector<SweepAxis>& axes) {
  return std::ranges::any_of(axes, [](const auto& axis) { return axis.range.has_value(); });
}

}  // namespace

SweepWords divided(const Words& words) {
  SweepWords result;
  Problems problems;
  for (const auto& given : parse_overrides(words, problems)) {
    if (given.words.size() != 1) {
      add_option(given.key, given.words, result.fixed);
      continue;
    }
    if (const auto range = range_in(given.key, given.words[0])) {
      result.axes.push_back({given.key, {}, range});
      continue;
    }
    auto values = ValueReader(given.key, given.words[0]).read();
    if (values.size() == 1) {
      add_option(given.key, values[0], result.fixed);
      continue;
    }
    for (size_t i = 0; i < values.size(); ++i)
      if (std::ranges::count(values, values[i]) > 1)
        throw UserError("--" + given.key + ": '" + joined(values[i], " ") + "' is given twice");
    result.axes.push_back({given.key, std::move(values), {}});
  }
  if (!problems.empty()) throw UserError(lines(problems));
  return result;
}

std::vector<SweepPoint> grid_of(const std::vector<SweepAxis>& axes) {
  for (const auto& axis : axes)
    if (axis.range)
      throw UserError("--" + axis.key +
                      ": a range needs --random N, the number of points to draw; or give values: "
                      "a,b,c");
  if (size_of(axes) > most_points)
    throw UserError("composer sweep: the grid has more than " + std::to_string(most_points) +
                    " points; draw some with --random N");
  std::vector<SweepPoint> points{{}};
  for (const auto& axis : axes) {
    std::vector<SweepPoint> longer;
    for (const auto& point : points)
      for (const auto& value : axis.values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    points = std::move(longer);
  }
  return points;
}

std::vector<SweepPoint> drawn_points(const std::vector<SweepAxis>& axes, int64_t count,
                                     uint64_t seed) {
  if (!any_range(axes) && size_of(axes) <= most_points) {
    auto points = grid_of(axes);
    Random random(seed, "sweep.grid", 0, 0);
    const int64_t size = std::ssize(points);
    count = std::min(count, size);
    for (int64_t i = 0; i < count; ++i)
      std::swap(points[static_cast<size_t>(i)],
                points[static_cast<size_t>(i + random.below(size - i))]);
    points.resize(static_cast<size_t>(count));
    return points;
  }
  constexpr int64_t most_tries = 100;
  std::vector<SweepPoint> points;
  std::set<SweepPoint> seen;
  for (int64_t i = 0; std::ssize(points) < count && i < most_tries * count; ++i) {
    Random random(seed, "sweep.point", 0, static_cast<uint64_t>(i));
    SweepPoint point;
    for (const auto& axis : axes) point.push_back(draw(axis, random));
    if (seen.insert(point).second) points.push_back(std::move(point));
  }
  return points;
}

Words words_of(const std::vector<SweepAxis>& axes, const SweepPoint& point) {
  Words words;
  for (size_t i = 0; i < axes.size(); ++i) add_option(axes[i].key, point[i], words);
  return words;
}

std::string name_of(const std::vector<SweepAxis>& axes, const SweepPoint& point,
                    const std::string& except) {
  Words parts;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].key != except) {
      auto words = point[i];
      for (auto& word : words) word = address_without_secrets(word);
      parts.push_back(axes[i].key + " " + joined(words, " "));
    }
  return joined(parts);
}

std::vector<HalvingRound> halving_rounds(int64_t points) {
  std::vector<HalvingRound> rounds;
  for (int64_t left = points; left >= 1; left /= halving) rounds.push_back({left, 1});
  double length = 1;
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round, length /= halving)
    round->length = length;
  return rounds;
}

}  // namespace composer
