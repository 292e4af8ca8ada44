#include "algorithms/augmentation/image_op.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/algorithms/augmentation_checks.h"
#include "tests/algorithms/moved_pixels.h"

using namespace composer;
using test::mutable_image;

namespace {

at::Tensor row(std::initializer_list<int64_t> values) {
  return at::tensor(at::ArrayRef<int64_t>(values)).to(at::kByte).view({1, -1, 1});
}

at::Tensor changed(const at::Tensor& image, const ImageStep& step) {
  auto result = image.clone();
  apply(step.op, step.magnitude, mutable_image(result), step.interpolation);
  return result;
}

std::vector<uint8_t> read(std::ifstream& file, size_t n) {
  std::vector<uint8_t> bytes(n);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(n));
  return bytes;
}

}  // namespace

// Pixels that do not move are equal. Of those that do, neither ours nor torchvision's may be others
// than the step's (MovedImage says which these are), however the processor's matrix product rounds.
TEST_CASE("image operations equal torchvision's", "[image_op][parity]") {
  const TemporaryFolder folder;
  if (!test::run_reference("pixels", folder)) return;
  std::ifstream cases(folder / "cases.txt"), before(folder / "before.bin", std::ios::binary);
  std::vector<std::ifstream> after;
  for (const char* product : {"native", "stepwise", "fused", "backwards"})
    after.emplace_back(folder / (std::string(product) + ".bin"), std::ios::binary);
  int op = 0, bilinear = 0;
  double magnitude = 0;
  MutableImage image;
  int compared = 0;
  while (cases >> op >> bilinear >> magnitude >> image.height >> image.width >> image.channels) {
    const ImageStep step{static_cast<ImageOp>(op), magnitude, static_cast<Interpolation>(bilinear)};
    const auto given =
        read(before, static_cast<size_t>(image.height * image.width * image.channels));
    auto pixels = given;
    image.pixels = pixels.data();
    apply(step.op, magnitude, image, step.interpolation);
    const auto wrong = [&](const std::vector<uint8_t>& result) {
      return test::MovedImage{
          step, {image.height, image.width}, image.channels, given.data(), result.data()}
          .wrong();
    };
    INFO(image_op_names[static_cast<size_t>(op)] << ' ' << magnitude << " of " << image.height
                                                 << " x " << image.width << " x "
                                                 << image.channels);
    if (test::moves(step.op)) CHECK(wrong(pixels) == 0);
    for (auto& file : after) {
      const auto expected = read(file, pixels.size());
      if (test::moves(step.op))
        CHECK(wrong(expected) == 0);
      else
        CHECK(pixels == expected);
    }
    ++compared;
  }
  CHECK(compared > 1500);
}

TEST_CASE("image operations on values", "[image_op]") {
  const auto image = row({0, 10, 100, 200, 255});
  CHECK(at::equal(changed(image, {ImageOp::identity}), image));
  CHECK(at::equal(changed(image, {ImageOp::invert}), row({255, 245, 155, 55, 0})));
  CHECK(at::equal(changed(image, {ImageOp::posterize, 2}), row({0, 0, 64, 192, 192})));
  CHECK(at::equal(changed(image, {ImageOp::posterize, 8}), image));
  CHECK(at::equal(changed(image, {ImageOp::solarize, 200}), row({0, 10, 100, 55, 0})));
  CHECK(at::equal(changed(image, {ImageOp::solarize, 256}), image));
  CHECK(at::equal(changed(image, {ImageOp::brightness, 0.5}), row({0, 15, 150, 255, 255})));
  CHECK(at::equal(changed(image, {ImageOp::contrast, -1}), row({113, 113, 113, 113, 113})));
  CHECK(at::equal(changed(row({50, 75, 100}), {ImageOp::autocontrast}), row({0, 127, 255})));
  CHECK(at::equal(changed(image, {ImageOp::color, 1}), image));
  const auto red = at::tensor({200, 0, 0}).to(at::kByte).view({1, 1, 3});
  CHECK(at::equal(changed(red, {ImageOp::color, -1}), at::full({1, 1, 3}, 59, at::kByte)));
}

TEST_CASE("image operations that move pixels", "[image_op]") {
  const auto image = test::noise({9, 9, 3});
  const auto zeros = [](int64_t h, int64_t w) { return at::zeros({h, w, 3}, at::kByte); };
  const auto how = GENERATE(Interpolation::nearest, Interpolation::bilinear);
  CHECK(at::equal(changed(image, {ImageOp::translate_x, 2.9, how}),
                  at::cat({zeros(9, 2), image.slice(1, 0, 7)}, 1)));
  CHECK(at::equal(changed(image, {ImageOp::translate_y, -3, how}),
                  at::cat({image.slice(0, 3), zeros(3, 9)}, 0)));
  CHECK(at::equal(changed(image, {ImageOp::translate_y, 4, how}),
                  at::cat({zeros(4, 9), image.slice(0, 0, 5)}, 0)));
  CHECK(at::equal(changed(image, {ImageOp::translate_x, 9, how}), zeros(9, 9)));
  CHECK(at::equal(changed(image, {ImageOp::rotate, 90, how}), image.rot90(1, {0, 1})));
  auto middle = at::zeros({3, 3, 1}, at::kByte);
  middle[1][1] = 200;
  const auto turned = changed(middle, {ImageOp::rotate, 45, how});
  CHECK(turned[1][1].item<int>() == 200);
}

TEST_CASE("bilinear shears blend neighbours", "[image_op]") {
  auto image = at::zeros({4, 6, 1}, at::kByte);
  image.select(1, 2).fill_(200);
  const auto sheared = changed(image, {ImageOp::shear_x, 0.5, Interpolation::bilinear});
  CHECK(at::equal(sheared[0].view(-1), row({0, 50, 150, 0, 0, 0}).view(-1)));
  CHECK(at::equal(sheared[1].view(-1), row({0, 150, 50, 0, 0, 0}).view(-1)));
}

TEST_CASE("steps follow one another, and AugMix averages chains", "[image_op]") {
  auto image = row({0, 10, 100, 200, 255});
  apply_draw(Steps{{ImageOp::invert}, {ImageOp::translate_x, 1}, {ImageOp::posterize, 4}},
             mutable_image(image));
  CHECK(at::equal(image, row({0, 240, 240, 144, 48})));

  const auto plain = row({0, 100, 200, 255});
  AugMixDraw draw;
  draw.chains = {{}, {{ImageOp::invert}}, {{ImageOp::invert}, {ImageOp::invert}}};
  draw.weights = {0.25, 0.5, 0.25};
  draw.mixing = 0.5;
  auto mixed = plain.clone();
  apply_draw(draw, mutable_image(mixed));
  CHECK(at::equal(mixed, row({63, 113, 163, 191})));  // 0.75 x + 0.25 (255 - x), truncated
  draw.mixing = 0;
  mixed.copy_(plain);
  apply_draw(draw, mutable_image(mixed));
  CHECK(at::equal(mixed, plain));
}

TEST_CASE("augment_batch refuses what is no batch of images", "[image_op]") {
  const std::function<Steps(int64_t)> none = [](int64_t) { return Steps{}; };
  CHECK_THROWS_WITH(augment_batch(at::zeros({1, 3, 8, 8}), none),
                    Catch::Contains("uint8 images [N, H, W, 1 or 3], not Float [1, 3, 8, 8]"));
  CHECK_THROWS(augment_batch(at::zeros({1, 3, 8, 8}, at::kByte), none));
  CHECK(augment_batch(at::zeros({0, 8, 8, 3}, at::kByte), none).size(0) == 0);
  const auto turned = test::noise({2, 3, 8, 7}).permute({0, 2, 3, 1});
  CHECK(at::equal(augment_batch(turned, none), turned));
}
