#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "composer/logging/sinks.h"

namespace composer::loss_guard_test {

namespace {

Record loss(int64_t batch, double value) {
  Timestamp time;
  time.batch = batch;
  return {"batch", time, {{"lr", 0.1}, {"loss/train", value}}};
}

}  // namespace

TEST_CASE("the first loss that is not finite is told once", "[loss_guard]") {
  LossGuard guard(0);
  guard.write(loss(1, 2.5));
  CHECK_FALSE(guard.take());
  guard.write(loss(2, std::numeric_limits<double>::infinity()));
  guard.write(loss(3, std::nan("")));
  const auto bad = guard.take();
  REQUIRE(bad);
  CHECK(bad->time.batch == 2);
  CHECK(std::isinf(bad->loss));
  guard.write(loss(4, std::nan("")));
  CHECK_FALSE(guard.take());
}

TEST_CASE("a loss that was seen before it is written counts once", "[loss_guard]") {
  LossGuard guard(1);
  const auto bad = loss(1, std::nan(""));
  guard.see(bad.time, std::nan(""));
  guard.write(bad);
  CHECK_FALSE(guard.take());
  guard.see(loss(2, 0).time, std::nan(""));
  REQUIRE(guard.take()->time.batch == 2);
}

TEST_CASE("loss scaling may pass some bad losses in a row", "[loss_guard]") {
  LossGuard guard(2);
  for (int64_t batch = 1; batch <= 8; ++batch)
    guard.write(loss(batch, batch % 3 == 0 ? 1.0 : std::nan("")));
  CHECK_FALSE(guard.take());
  for (int64_t batch = 9; batch <= 12; ++batch) guard.write(loss(batch, std::nan("")));
  REQUIRE(guard.take()->time.batch == 9);
}

}  // namespace composer::loss_guard_test
