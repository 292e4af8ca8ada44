#include <zlib.h>

#include <catch2/catch.hpp>
#include <stdexcept>

#include "base/random.h"
#include "composer/logging/logger.h"
#include "composer/logging/png.h"
#include "tests/composer/unpacked_png.h"
#include "tests/gpu.h"

namespace composer::logged_images_test {

namespace {

std::vector<uint8_t> noise(int64_t bytes) {
  std::vector<uint8_t> pixels;
  Random random(1, "noise", 0, 0);
  for (int64_t i = 0; i < bytes; ++i) pixels.push_back(static_cast<uint8_t>(random.below(256)));
  return pixels;
}

class Pictures : public LogSink {
 public:
  void write(const Record& record) override { order.push_back(std::string(record.event)); }
  void write_images(const ImageRecord& record) override {
    order.push_back(record.name);
    records.push_back(record);
  }
  std::vector<std::string> order;
  std::vector<ImageRecord> records;
};

}  // namespace

TEST_CASE("a PNG file holds its pixels and sums that are right", "[logging]") {
  for (const int64_t channels : {1, 3, 4}) {
    const auto pixels = noise(5 * 7 * channels);
    const auto image = unpacked_png(png(5, 7, channels, pixels));
    CHECK(image.height == 5);
    CHECK(image.width == 7);
    CHECK(image.channels == channels);
    CHECK(image.pixels == pixels);
  }
}

TEST_CASE("a PNG file of other pixels than it is told is refused", "[logging]") {
  const auto pixels = noise(12);
  CHECK_NOTHROW(png(2, 2, 3, pixels));
  CHECK_THROWS_AS(png(2, 3, 3, pixels), std::invalid_argument);
  CHECK_THROWS_AS(png(2, 3, 2, pixels), std::invalid_argument);
  CHECK_THROWS_AS(png(0, 0, 3, {}), std::invalid_argument);
}

TEST_CASE("logged images reach the sinks before their record, as they were", "[logging]") {
  const auto sink = std::make_shared<Pictures>();
  Logger logger;
  logger.add(sink);
  const auto images = at::arange(2 * 3 * 4 * 3, at::kByte).view({2, 3, 4, 3});
  logger.log_images("images/train", images.permute({0, 2, 1, 3}), {"cat", "dog"});
  images.zero_();
  logger.log("loss/train", 1.0);
  Timestamp time;
  time.batch = 7;
  logger.commit("batch", time);
  logger.log_images("images/gray", images.slice(3, 0, 1));
  logger.commit("epoch", time);
  logger.flush();
  CHECK(sink->order == std::vector<std::string>{"images/train", "batch", "images/gray"});

  const auto& [name, when, logged] = sink->records.at(0);
  CHECK(when.batch == 7);
  REQUIRE(logged.size() == 2);
  CHECK(logged[1].caption == "dog");
  CHECK(logged[1].height == 4);
  CHECK(logged[1].width == 3);
  // Row 0, column 1 of the second one is row 1, column 0 before the permutation.
  CHECK(logged[1].pixels.at(3) == 36 + 12);
  CHECK(sink->records.at(1).images.at(1).channels == 1);
  CHECK(sink->records.at(1).images.at(1).caption.empty());
}

TEST_CASE("images of another type or shape, or with too few captions, are refused", "[logging]") {
  Logger logger;
  CHECK_THROWS_AS(logger.log_images("a", at::zeros({1, 4, 4, 3})), c10::ValueError);
  CHECK_THROWS_AS(logger.log_images("a", at::zeros({1, 3, 4, 4}, at::kByte)), c10::ValueError);
  CHECK_THROWS_AS(logger.log_images("a", at::zeros({2, 4, 4, 3}, at::kByte), {"one"}),
                  c10::ValueError);
}

TEST_CASE("images of a device are copied behind the loop", "[logging][gpu]") {
  if (!test::has_gpu()) return;
  const auto sink = std::make_shared<Pictures>();
  Logger logger;
  logger.add(sink);
  const auto images = at::arange(48, at::kByte).view({1, 4, 4, 3}).to(at::kCUDA);
  logger.log_images("images/train", images);
  images.zero_();
  logger.commit("batch", {});
  logger.flush();
  CHECK(sink->records.at(0).images.at(0).pixels.at(47) == 47);
}

}  // namespace composer::logged_images_test
