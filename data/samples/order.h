// The samples of a set that take part (the rows that a recipe names, on one side of a split), and
// the order in which an epoch visits them: a pure function of (seed, epoch), with random access to
// each position.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/loading/loader_options.h"
#include "data/samples/source.h"

namespace composer {

/// A random permutation of 0..n-1 that needs no memory: a Feistel network on pairs of digits
/// (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"), keyed by the arguments of a
/// Random.
class Permutation {
 public:
  /// n: 1 to 2^62.
  Permutation(int64_t n, uint64_t seed, std::string_view purpose, uint64_t epoch, uint64_t index);

  int64_t operator()(int64_t position) const;

 private:
  static constexpr int kMostRounds = 24;

  uint64_t n_, left_, right_;  // left_ * right_ >= n_, both near its square root
  int rounds_;                 // more for small n, whose digits mix slowly
  uint64_t keys_[kMostRounds];
};

/// The sample at a position of an epoch.
using EpochOrder = std::function<int64_t(int64_t position)>;

/// Epochs' orders that the loader's user gives. Functions may be called by several threads at once.
class GivenOrders {
 public:
  /// positions: of every epoch. repeats: whether an epoch may have a sample more than once.
  /// whole_pages: the order goes through windows of pages, as quasi_random does.
  GivenOrders(int64_t positions, bool repeats, bool whole_pages)
      : positions(positions), repeats(repeats), whole_pages(whole_pages) {}

  const int64_t positions;
  const bool repeats, whole_pages;

  /// Forgets the epoch before. samples: `positions` numbers of samples.
  void give(int64_t epoch, std::vector<int64_t> samples);
  /// Empty where the epoch was not given.
  EpochOrder of(int64_t epoch) const;

 private:
  mutable std::mutex lock_;
  int64_t epoch_ = -1;
  std::shared_ptr<const std::vector<int64_t>> samples_;
};

enum class OrderKind {
  sequential,
  random,
  quasi_random,    ///< random within windows of pages: for files larger than memory
  class_balanced,  ///< every class equally often, whatever its number of samples
  given,           ///< GivenOrders
};

struct OrderOptions {
  OrderKind kind = OrderKind::sequential;
  std::vector<int64_t> subset;  ///< the samples that take part, in this order; empty: all
  uint64_t seed = 0;
  int64_t window_pages = 64;  ///< pages whose samples quasi_random mixes
  std::shared_ptr<const GivenOrders> given{};
};

class Sampler {
 public:
  /// Throws UserError for a sample of the subset that the source does not have.
  Sampler(const Source& source, OrderOptions options);

  /// Samples an epoch.
  int64_t size() const { return size_; }
  /// Whether an epoch may have a sample more than once.
  bool repeats() const { return repeats_; }
  /// Empty for an epoch that was not given.
  EpochOrder epoch(int64_t epoch) const;

 private:
  int64_t member(int64_t i) const {
    return options_.subset.empty() ? i : options_.subset[static_cast<size_t>(i)];
  }
  void group(const std::function<int64_t(int64_t)>& group_of);
  EpochOrder quasi_random(int64_t epoch) const;
  EpochOrder class_balanced(int64_t epoch) const;

  OrderOptions options_;
  int64_t size_ = 0;
  bool repeats_;
  std::vector<uint32_t> grouped_;  ///< the samples, grouped by page or class
  std::vector<int64_t> begins_;    ///< begin of each group in grouped_, and the end
};

/// "0-99,200,300-" as numbers below `size`; a range without an end goes to the last. Throws
/// UserError naming `key` and what is wrong.
std::vector<int64_t> parse_rows(std::string_view text, int64_t size, std::string_view key);

/// The samples of `rows` (parse_rows; "": all) that are on the side of options.split, in order; an
/// empty result stands for all samples. The side for evaluation has the share `val` of each class,
/// rounded, but at least one sample and not all; a share of 1 takes all samples. A class with one
/// sample is trained on. The side of a sample is a pure function of the split's share and seed, the
/// rows and their labels.
///
/// For training, the log says how large the sides are and which classes have one sample, and warns
/// of classes that `rows` leaves out and of samples that all have one class; for an evaluation, it
/// warns of classes without samples. Throws UserError for rows that do not exist, and where a side
/// has no samples.
std::vector<int64_t> chosen_rows(const Source& source, const std::string& rows, bool training,
                                 const LoaderOptions& options);

/// A digest of the number of samples and, where there are classes, their labels in order; empty
/// where a label is lost.
std::string digest_of(const Source& source);

}  // namespace composer
