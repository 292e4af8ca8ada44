#include "cli/in_order.h"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

namespace composer::in_order_test {

namespace {

/// What is reported for the indices 0 .. count-1; `bad` and what follows throw.
std::vector<int64_t> reported(int64_t count, int threads, int64_t bad, std::string* error) {
  std::vector<int64_t> order;
  const auto make_worker = [&]() -> SampleWorker {
    return [&](int64_t index) -> SampleReport {
      if (index % 5 == 0) std::this_thread::yield();
      if (index >= bad) throw std::runtime_error(std::to_string(index));
      return [&order, index] { order.push_back(index); };
    };
  };
  try {
    in_order(count, threads, make_worker);
  } catch (const std::runtime_error& thrown) {
    *error = thrown.what();
  }
  return order;
}

std::vector<int64_t> up_to(int64_t count) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(i);
  return all;
}

}  // namespace

TEST_CASE("results come in the samples' order, however many threads work", "[cli]") {
  std::string error;
  for (const int threads : {1, 2, 7})
    for (const int64_t count : {0, 1, 5, 2000})
      CHECK(reported(count, threads, count, &error) == up_to(count));
  CHECK(error.empty());
}

TEST_CASE("the first bad sample's error ends the work", "[cli]") {
  for (const int threads : {1, 2, 7}) {
    std::string error;
    CHECK(reported(2000, threads, 300, &error) == up_to(300));
    CHECK(error == "300");
  }
}

TEST_CASE("a worker that cannot be made ends the work", "[cli]") {
  const auto broken = []() -> SampleWorker { throw std::runtime_error("no worker"); };
  CHECK_THROWS_WITH(in_order(10, 3, broken), "no worker");
}

}  // namespace composer::in_order_test
