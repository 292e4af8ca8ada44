#include "data/samples/order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "base/error.h"

namespace composer::order_test {

namespace {

/// Labels and pages by rule; no images.
class NumberedSource final : public Source {
 public:
  explicit NumberedSource(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  int64_t channels() const override { return 3; }
  /// Class 0 has nine of ten samples.
  int64_t label(int64_t index) const override { return index % 10 == 9 ? 1 + index / 10 % 2 : 0; }
  std::string name(int64_t index) const override { return std::to_string(index); }
  StoredImage open(int64_t, ReadScratch&) const override { return {}; }
  /// Pages of unequal size, one after the other and a second time.
  int64_t page(int64_t index) const override { return index % 500 / 7; }

 private:
  int64_t size_;
};

std::vector<int64_t> order_of(const Sampler& sampler, int64_t epoch) {
  const auto order = sampler.epoch(epoch);
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < sampler.size(); ++i) samples.push_back(order(i));
  return samples;
}

std::vector<int64_t> sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

TEST_CASE("a permutation has every number once, for every length", "[data]") {
  for (const int64_t n : {1, 2, 3, 4, 5, 7, 16, 100, 4097, 50000}) {
    const Permutation permutation(n, 17, "test", 3, 0);
    std::vector<int64_t> values, all(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) values.push_back(permutation(i));
    std::iota(all.begin(), all.end(), 0);
    CHECK(sorted(values) == all);
  }
  const Permutation huge(int64_t{1} << 40, 17, "test", 3, 0);
  CHECK(huge(0) >= 0);
  CHECK(huge((int64_t{1} << 40) - 1) < int64_t{1} << 40);
}

TEST_CASE("all permutations of a few come about equally often", "[data]") {
  // Chi-square with 5, 23 and 119 degrees of freedom stays below these with probability 0.9999.
  const std::map<int64_t, std::pair<size_t, double>> limits{
      {3, {6, 25.7}}, {4, {24, 58.6}}, {5, {120, 185.0}}};
  for (const auto& [n, limit] : limits) {
    std::map<std::vector<int64_t>, int> counts;
    const auto [all, most] = limit;
    for (uint64_t epoch = 0; epoch < 200 * all; ++epoch) {
      const Permutation permutation(n, 1, "test", epoch, 0);
      std::vector<int64_t> values;
      for (int64_t i = 0; i < n; ++i) values.push_back(permutation(i));
      ++counts[values];
    }
    CHECK(counts.size() == all);
    double chi = 0;
    for (const auto& [values, count] : counts) chi += (count - 200.0) * (count - 200.0) / 200.0;
    CHECK(chi < most);
  }
}

TEST_CASE("every order but the balanced one has each sample once, and each epoch another",
          "[data]") {
  const NumberedSource source(1003);
  for (const auto kind : {OrderKind::random, OrderKind::quasi_random}) {
    const Sampler sampler(source, {.kind = kind, .subset = {}, .seed = 5, .window_pages = 8});
    const auto first = order_of(sampler, 0), second = order_of(sampler, 1);
    std::vector<int64_t> all(1003);
    std::iota(all.begin(), all.end(), 0);
    CHECK(sorted(first) == all);
    CHECK(sorted(second) == all);
    CHECK(first != second);
    CHECK(order_of(sampler, 0) == first);
    const Sampler other(source, {.kind = kind, .subset = {}, .seed = 6, .window_pages = 8});
    CHECK(order_of(other, 0) != first);
  }
  const auto sequential = order_of(Sampler(source, {}), 3);
  CHECK(std::is_sorted(sequential.begin(), sequential.end()));
}

TEST_CASE("the quasi-random order stays within a window of pages", "[data]") {
  const NumberedSource source(1000);
  const Sampler sampler(source, {.kind = OrderKind::quasi_random, .subset = {}, .window_pages = 4});
  const auto samples = order_of(sampler, 2);
  // 14 samples a page and 4 pages a window: whichever 56 follow each other lie on 8 pages at most.
  std::set<int64_t> seen;
  for (size_t begin = 0; begin + 56 <= samples.size(); begin += 56) {
    std::set<int64_t> pages;
    for (size_t i = begin; i < begin + 56; ++i) pages.insert(source.page(samples[i]));
    CHECK(pages.size() <= 8);
    CHECK(pages.size() >= 3);
    seen.insert(pages.begin(), pages.end());
  }
  CHECK(seen.size() > 60);
}

TEST_CASE("a subset takes part alone, in any order", "[data]") {
  const NumberedSource source(1000);
  const std::vector<int64_t> subset{5, 900, 17, 3, 450};
  for (const auto kind : {OrderKind::sequential, OrderKind::random, OrderKind::quasi_random}) {
    const Sampler sampler(source, {.kind = kind, .subset = subset, .seed = 1});
    CHECK(sampler.size() == 5);
    CHECK(sorted(order_of(sampler, 0)) == sorted(subset));
  }
  CHECK(order_of(Sampler(source, {.subset = subset}), 0) == subset);
  CHECK_THROWS_AS(Sampler(source, {.subset = {1000}}), UserError);
}

TEST_CASE("a balanced epoch shows every class equally often", "[data]") {
  const NumberedSource source(3000);
  const Sampler sampler(source, {.kind = OrderKind::class_balanced, .subset = {}, .seed = 3});
  std::vector<int64_t> counts(3);
  std::set<int64_t> of_large;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    for (const int64_t sample : order_of(sampler, epoch)) {
      ++counts[static_cast<size_t>(source.label(sample))];
      if (source.label(sample) == 0) of_large.insert(sample);
    }
  }
  CHECK(counts == std::vector<int64_t>{3000, 3000, 3000});
  CHECK(of_large.size() == 2700);  // 1000 visits an epoch: after three all were seen
  CHECK(order_of(sampler, 0) != order_of(sampler, 1));
}

TEST_CASE("a sampler knows whether a sample may come twice", "[data]") {
  const NumberedSource source(10);
  const auto repeats = [&](OrderKind kind, std::vector<int64_t> rows) {
    return Sampler(source, {.kind = kind, .subset = std::move(rows)}).repeats();
  };
  CHECK_FALSE(repeats(OrderKind::random, {}));
  CHECK_FALSE(repeats(OrderKind::random, {5, 0, 3}));
  CHECK(repeats(OrderKind::random, {5, 0, 5}));
  CHECK(repeats(OrderKind::class_balanced, {}));
}

TEST_CASE("rows are written as numbers and ranges", "[data]") {
  CHECK(parse_rows("", 10, "rows").empty());
  CHECK(parse_rows("3", 10, "rows") == std::vector<int64_t>{3});
  CHECK(parse_rows("0-2,9,7-", 10, "rows") == std::vector<int64_t>{0, 1, 2, 9, 7, 8, 9});
  for (const char* bad : {"10", "a", "1-a", "-3", "3-1", "1,,2", "1.5", "99999999999999999999"}) {
    CHECK_THROWS_AS(parse_rows(bad, 10, "rows"), UserError);
  }
  CHECK_THROWS_WITH(parse_rows("8-12", 10, "rows"), "rows: '8-12' is beyond the last row, 9");
}

}  // namespace composer::order_test
