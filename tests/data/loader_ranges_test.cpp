// The names under which a loader's time is found.
#include <catch2/catch.hpp>
#include <thread>

#include "data/batches/image_loader.h"
#include "nn/network/batch.h"
#include "nn/profiling/timer.h"
#include "tests/data/fake_sources.h"

namespace composer::loader_ranges_test {

using namespace composer::test;

namespace {

/// The ranges of two epochs of 40 images in batches of 4, a consumer slower than the loader's
/// threads, which have ended.
Timer::Totals ranges_of(int64_t num_workers, ElementType output) {
  const Timer timer;
  {
    const auto loader = make_image_loader(
        std::make_shared<FakePixels>(pictures(40)),
        {.transform = {.kind = Transform::Kind::random_resized_crop, .size = {32, 32}},
         .augmentations = {[](const MutableImage&, const SampleKey&) {}},
         .normalization = {{0, 0, 0}, {1, 1, 1}},
         .training = true,
         .output = output},
        {.batch_size = 4, .seed = 17, .num_workers = num_workers, .prefetch_factor = 1});
    for (int batch = 0; batch < 22; ++batch) {
      RECORD_USER_SCOPE("dataloader");
      loader->next();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return timer.totals();
}

}  // namespace

TEST_CASE("the loader's threads tell what they do by name", "[ranges]") {
  const auto totals = ranges_of(2, ElementType::float32);
  for (const char* name : {"read", "decode", "augment", "collate", "wait"}) {
    INFO(name);
    REQUIRE(totals.elsewhere.contains(name));
    CHECK(totals.elsewhere.at(name).seconds > 0);
  }
  for (const char* name : {"read", "decode", "augment", "wait"}) {
    INFO(name);
    CHECK_FALSE(totals.here.contains(name));
  }
  CHECK(totals.here.at("dataloader").calls == 22);
}

TEST_CASE("a loader without threads does its work in the wait for a batch", "[ranges]") {
  const auto totals = ranges_of(0, ElementType::uint8);
  CHECK(totals.elsewhere.empty());
  double inside = 0;
  for (const char* name : {"read", "decode", "augment", "collate"}) {
    INFO(name);
    REQUIRE(totals.here.contains(name));
    inside += totals.here.at(name).seconds;
  }
  const auto& whole = totals.here.at("dataloader");
  CHECK(whole.seconds == Approx(whole.self_seconds + inside));
}

}  // namespace composer::loader_ranges_test
