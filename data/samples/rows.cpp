#include "data/samples/rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/files/digest.h"
#include "data/samples/order.h"

namespace composer {
namespace {

/// The class's name, or its number where it has none, for messages.
std::string class_text(int64_t label, const std::vector<std::string>& names) {
  const bool named = label >= 0 && label < std::ssize(names);
  return named ? names[static_cast<size_t>(label)] : std::to_string(label);
}

/// The labels of the rows (empty: of all samples).
std::set<int64_t> labels_of(const Source& source, const std::vector<int64_t>& rows) {
  std::set<int64_t> labels;
  for (const int64_t row : rows) labels.insert(label_of(source, row));
  for (int64_t row = 0; rows.empty() && row < source.size(); ++row)
    labels.insert(label_of(source, row));
  return labels;
}

void warn_of_classes_left_out(const Source& source, const std::vector<int64_t>& rows,
                              const std::vector<std::string>& names) {
  const auto present = labels_of(source, rows), all = labels_of(source, {});
  std::vector<std::string> missing;
  for (const int64_t label : all)
    if (!present.contains(label)) missing.push_back(class_text(label, names));
  if (missing.empty()) return;
  log::warn("rows: training has samples of only " + std::to_string(present.size()) + " of " +
            std::to_string(all.size()) + " classes; missing: " + first_few(std::move(missing)) +
            " (the samples of a folder come class by class)");
}

/// Warns of training samples (rows; empty: all) of one class, and of labels without names that
/// count from 1, as lists of other programs do: one output of the network would get no samples.
void warn_of_labels(const Source& source, const std::vector<int64_t>& rows,
                    const std::vector<std::string>& names) {
  const int64_t count = rows.empty() ? source.size() : std::ssize(rows);
  if (source.num_values() > 0 || count == 0) return;
  const auto label = [&](int64_t i) {
    return source.label(rows.empty() ? i : rows[static_cast<size_t>(i)]);
  };
  try {
    const int64_t first = label(0);
    int64_t lowest = names.empty() && rows.empty() ? first : 0;
    bool is_one_class = true;
    for (int64_t i = 1; i < count && (is_one_class || lowest > 0); ++i) {
      is_one_class = is_one_class && label(i) == first;
      lowest = std::min(lowest, label(i));
    }
    if (lowest == 1)
      log::warn(
          "no sample to train on has label 0: labels count from 0, and do these count from 1?");
    if (is_one_class && count > 1)
      log::warn("all samples to train on are of one class, " + class_text(first, names) +
                ": there is nothing to tell apart");
  } catch (const RunError&) {
    return;  // a lost label is reported when the sample is read
  }
}

/// rows: empty = all.
void warn_of_classes_not_evaluated(const Source& source, const std::vector<int64_t>& rows,
                                   const std::vector<std::string>& names) {
  if (names.empty() || source.num_values() > 0) return;
  const auto present = labels_of(source, rows);
  std::vector<std::string> missing;
  for (size_t i = 0; i < names.size(); ++i)
    if (!present.contains(static_cast<int64_t>(i))) missing.push_back(names[i]);
  if (missing.empty()) return;
  log::warn("the evaluation has no samples of " + std::to_string(missing.size()) + " of the " +
            std::to_string(names.size()) + " classes: " + first_few(missing));
}

using Classes = std::map<int64_t, std::vector<int64_t>>;

/// The samples of each class, without repetition.
Classes by_class(const Source& source, const std::vector<int64_t>& rows) {
  Classes classes;
  std::vector<bool> seen(static_cast<size_t>(source.size()));
  for (const int64_t row : rows) {
    if (seen[static_cast<size_t>(row)]) continue;
    seen[static_cast<size_t>(row)] = true;
    classes[label_of(source, row)].push_back(row);
  }
  return classes;
}

/// For each sample of the source, whether it is on the side for evaluation.
std::vector<bool> evaluated_samples(const Classes& classes, int64_t size, const Split& split) {
  std::vector<bool> evaluated(static_cast<size_t>(size), split.val == 1);
  if (split.val == 1) return evaluated;
  for (const auto& [label, samples] : classes) {
    const auto count = static_cast<int64_t>(samples.size());
    if (count == 1) continue;
    const Permutation shuffled(count, split.seed, "data.split", 0, static_cast<uint64_t>(label));
    const auto share = std::llround(split.val * static_cast<double>(count));
    for (int64_t i = 0; i < std::clamp<int64_t>(share, 1, count - 1); ++i)
      evaluated[static_cast<size_t>(samples[static_cast<size_t>(shuffled(i))])] = true;
  }
  return evaluated;
}

void tell_of_split(const Classes& classes, const std::vector<bool>& evaluated,
                   const LoaderOptions& options) {
  size_t samples = 0;
  std::vector<std::string> single;
  for (const auto& [label, members] : classes) {
    samples += members.size();
    if (members.size() == 1) single.push_back(class_text(label, options.class_names));
  }
  const auto count = static_cast<size_t>(std::ranges::count(evaluated, true));
  log::info("split: " + quantity(static_cast<int64_t>(samples - count), "sample") +
            " to train on, " + std::to_string(count) + " to evaluate on");
  if (!single.empty())
    log::info("split: classes with one sample, which is trained on: " + first_few(single));
}

}  // namespace

std::vector<int64_t> chosen_rows(const Source& source, const std::string& text, bool training,
                                 const LoaderOptions& options) {
  auto rows = parse_rows(text, source.size(), "rows");
  if (training && !rows.empty()) warn_of_classes_left_out(source, rows, options.class_names);
  if (training) warn_of_labels(source, rows, options.class_names);
  if (!training && !options.split) warn_of_classes_not_evaluated(source, rows, options.class_names);
  if (!options.split) return rows;
  if (rows.empty()) {
    rows.resize(static_cast<size_t>(source.size()));
    std::iota(rows.begin(), rows.end(), 0);
  }
  const auto classes = by_class(source, rows);
  const auto evaluated = evaluated_samples(classes, source.size(), *options.split);
  if (training) tell_of_split(classes, evaluated, options);
  std::erase_if(rows, [&](int64_t row) {
    return evaluated[static_cast<size_t>(row)] != options.split->evaluation;
  });
  if (rows.empty())
    throw UserError("split: no class has two samples, so that none is left to " +
                    std::string(options.split->evaluation ? "evaluate" : "train") + " on");
  return rows;
}

std::string digest_of(const Source& source) try {
  constexpr int64_t at_once = 4096;
  Digest hash("xxh64");
  std::vector<uint8_t> bytes;
  const auto add = [&](int64_t number) {
    for (int shift = 0; shift < 64; shift += 8)
      bytes.push_back(static_cast<uint8_t>(number >> shift));
  };
  add(source.size());
  for (int64_t row = 0; source.num_values() == 0 && row < source.size(); ++row) {
    add(source.label(row));
    if (row % at_once == 0) hash.update(std::exchange(bytes, {}));
  }
  hash.update(bytes);
  return hash.hex();
} catch (const RunError&) {
  return "";
}

}  // namespace composer
