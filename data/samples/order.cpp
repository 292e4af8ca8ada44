#include "data/samples/order.h"

#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "data/files/digest.h"

namespace composer {
namespace {

/// A 64-bit mixing function (Stafford 2011, variant 13).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// A digit below `range`, a hash of `value` and `key`.
uint64_t digit(uint64_t value, uint64_t key, uint64_t range) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(mix(value ^ key)) * range) >> 64);
}

uint64_t add(uint64_t a, uint64_t b, uint64_t range) {
  const uint64_t sum = a + b;
  return sum >= range ? sum - range : sum;
}

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
          "no sample to train on has label 0: labels must count from 0; do these count from 1?");
    if (is_one_class && count > 1)
      log::warn("all samples to train on are of one class, " + class_text(first, names) +
                ": there is nothing to tell apart");
  } catch (const RunError&) {
    return;  // a lost label is reported when the sample is read
  }
}

/// rows: the rows that are evaluated on; empty: all rows.
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

Permutation::Permutation(int64_t n, uint64_t seed, std::string_view purpose, uint64_t epoch,
                         uint64_t index)
    : n_(static_cast<uint64_t>(n)), rounds_(n < 1024 ? kMostRounds : 8) {
  left_ = std::max<uint64_t>(static_cast<uint64_t>(std::sqrt(static_cast<double>(n))), 2);
  right_ = (n_ + left_ - 1) / left_;
  Random random(seed, purpose, epoch, index);
  for (int round = 0; round < rounds_; ++round) {
    const uint64_t high = random.bits();
    keys_[round] = high << 32 | random.bits();
  }
}

int64_t Permutation::operator()(int64_t position) const {
  auto value = static_cast<uint64_t>(position);
  do {
    uint64_t l = value % left_, r = value / left_;
    for (int round = 0; round < rounds_; round += 2) {
      l = add(l, digit(r, keys_[round], left_), left_);
      r = add(r, digit(l, keys_[round + 1], right_), right_);
    }
    value = r * left_ + l;
  } while (value >= n_);
  return static_cast<int64_t>(value);
}

void GivenOrders::give(int64_t epoch, std::vector<int64_t> samples) {
  auto order = std::make_shared<const std::vector<int64_t>>(std::move(samples));
  const std::lock_guard guard(lock_);
  epoch_ = epoch, samples_ = std::move(order);
}

EpochOrder GivenOrders::of(int64_t epoch) const {
  const std::lock_guard guard(lock_);
  if (epoch != epoch_) return {};
  return [order = samples_](int64_t at) { return (*order)[static_cast<size_t>(at)]; };
}

Sampler::Sampler(const Source& source, OrderOptions options)
    : options_(std::move(options)), repeats_(options_.kind == OrderKind::class_balanced) {
  if (options_.kind == OrderKind::given) {
    size_ = options_.given->positions;
    repeats_ = options_.given->repeats;
    return;
  }
  std::vector<bool> seen(options_.subset.empty() ? 0 : static_cast<size_t>(source.size()));
  for (const int64_t sample : options_.subset) {
    if (sample < 0 || sample >= source.size())
      throw UserError("rows: there is no sample " + std::to_string(sample) +
                      "; the data set has samples 0 to " + std::to_string(source.size() - 1));
    const auto index = static_cast<size_t>(sample);
    repeats_ = repeats_ || seen[index];
    seen[index] = true;
  }
  size_ = options_.subset.empty() ? source.size() : static_cast<int64_t>(options_.subset.size());
  if (options_.kind == OrderKind::quasi_random)
    group([&](int64_t sample) { return source.page(sample); });
  else if (options_.kind == OrderKind::class_balanced)
    group([&](int64_t sample) { return label_of(source, sample); });
}

void Sampler::group(const std::function<int64_t(int64_t)>& group_of) {
  std::vector<int64_t> groups(static_cast<size_t>(size_));
  for (int64_t i = 0; i < size_; ++i) groups[static_cast<size_t>(i)] = group_of(member(i));
  std::vector<uint32_t> sorted(groups.size());
  std::iota(sorted.begin(), sorted.end(), 0u);
  std::ranges::stable_sort(sorted, {}, [&](uint32_t i) { return groups[i]; });
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || groups[sorted[i]] != groups[sorted[i - 1]])
      begins_.push_back(static_cast<int64_t>(i));
    grouped_.push_back(static_cast<uint32_t>(member(sorted[i])));
  }
  begins_.push_back(size_);
}

EpochOrder Sampler::epoch(int64_t epoch) const {
  switch (options_.kind) {
    case OrderKind::sequential:
      return [this](int64_t position) { return member(position); };
    case OrderKind::random: {
      const Permutation shuffled(size_, options_.seed, "data.shuffle", static_cast<uint64_t>(epoch),
                                 0);
      return [this, shuffled](int64_t position) { return member(shuffled(position)); };
    }
    case OrderKind::quasi_random:
      return quasi_random(epoch);
    case OrderKind::class_balanced:
      return class_balanced(epoch);
    case OrderKind::given:
      return options_.given->of(epoch);
  }
  return {};
}

/// The pages are shuffled and cut into windows; the samples of a window's pages are mixed.
EpochOrder Sampler::quasi_random(int64_t epoch) const {
  struct Layout {
    std::vector<int64_t> pages;     // shuffled
    std::vector<int64_t> position;  // position of each page's first sample before mixing
    std::vector<int64_t> window;    // position of each window's first sample
    std::vector<Permutation> mixed;
  };
  const auto time = static_cast<uint64_t>(epoch);
  const auto pages = static_cast<int64_t>(begins_.size()) - 1;
  auto layout = std::make_shared<Layout>();
  const Permutation shuffled(pages, options_.seed, "data.pages", time, 0);
  int64_t position = 0;
  for (int64_t i = 0; i < pages; ++i) {
    const auto page = static_cast<size_t>(shuffled(i));
    if (i % options_.window_pages == 0) layout->window.push_back(position);
    layout->pages.push_back(static_cast<int64_t>(page));
    layout->position.push_back(position);
    position += begins_[page + 1] - begins_[page];
  }
  for (size_t i = 0; i < layout->window.size(); ++i) {
    const int64_t end = i + 1 < layout->window.size() ? layout->window[i + 1] : size_;
    layout->mixed.emplace_back(end - layout->window[i], options_.seed, "data.window", time, i);
  }
  const auto last_at_most = [](const std::vector<int64_t>& begins, int64_t value) {
    return static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), value) -
                               begins.begin() - 1);
  };
  return [this, layout, last_at_most](int64_t at) {
    const size_t window = last_at_most(layout->window, at);
    const int64_t begin = layout->window[window];
    const int64_t unmixed = begin + layout->mixed[window](at - begin);
    const size_t next = last_at_most(layout->position, unmixed);
    const auto page = static_cast<size_t>(layout->pages[next]);
    const int64_t in_page = unmixed - layout->position[next];
    return static_cast<int64_t>(grouped_[static_cast<size_t>(begins_[page] + in_page)]);
  };
}

/// Each run of as many positions as there are classes has every class once. The n-th visit to a
/// class takes its n-th sample in a shuffled order, shuffled anew once all have been taken.
EpochOrder Sampler::class_balanced(int64_t epoch) const {
  const auto classes = static_cast<int64_t>(begins_.size()) - 1;
  return [this, classes, epoch](int64_t at) {
    const int64_t visit = at / classes;
    const Permutation turn(classes, options_.seed, "data.classes", static_cast<uint64_t>(epoch),
                           static_cast<uint64_t>(visit));
    const auto label = static_cast<size_t>(turn(at % classes));
    const int64_t count = begins_[label + 1] - begins_[label];
    // Visits are counted over all epochs, so that a large class is seen whole.
    const int64_t all = epoch * ((size_ + classes - 1) / classes) + visit;
    const Permutation shuffled(count, options_.seed, "data.class",
                               static_cast<uint64_t>(all / count), label);
    return static_cast<int64_t>(
        grouped_[static_cast<size_t>(begins_[label] + shuffled(all % count))]);
  };
}

std::vector<int64_t> parse_rows(std::string_view text, int64_t size, std::string_view key) {
  const auto fail = [&](std::string_view part, const std::string& why) {
    throw UserError(std::string(key) + ": '" + std::string(part) + "' " + why);
  };
  const auto number = [&](std::string_view part, std::string_view digits) {
    const auto value = to_number<int64_t>(digits);
    if (!value) fail(part, "is no row; give for instance 0-99,200,300-");
    if (*value >= size) fail(part, "is beyond the last row, " + std::to_string(size - 1));
    return *value;
  };
  std::vector<int64_t> rows;
  while (!text.empty()) {
    const auto part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const size_t dash = part.find('-');
    const int64_t first = number(part, part.substr(0, dash));
    int64_t last = first;
    if (dash != std::string_view::npos)
      last = dash + 1 == part.size() ? size - 1 : number(part, part.substr(dash + 1));
    if (last < first) fail(part, "ends before it begins");
    for (int64_t row = first; row <= last; ++row) rows.push_back(row);
  }
  return rows;
}

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
