#include "algorithms/augmentation/image_op.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/algorithms/augmentation_checks.h"
#include "tests/algorithms/moved_pixels.h"
#include "tests/vectors.h"

namespace composer::image_op_test {

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

/// An image, and what is done to it.
struct Example {
  ImageStep step;
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> before;

  std::vector<uint8_t> ours() const {
    auto pixels = before;
    apply(step.op, step.magnitude, {pixels.data(), height, width, channels}, step.interpolation);
    return pixels;
  }

  /// Pixels of a step that moves them that no rounding explains: see MovedImage.
  int64_t wrong(const std::vector<uint8_t>& result) const {
    return test::MovedImage{step, {height, width}, channels, before.data(), result.data()}.wrong();
  }

  std::string text() const {
    std::ostringstream out;
    out << image_op_names[static_cast<size_t>(step.op)] << ' ' << step.magnitude << " of " << height
        << " x " << width << " x " << channels;
    return out.str();
  }
};

std::string as_text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// The recording: lines "image HEIGHT WIDTH CHANNELS BYTES..." and, for the image before them,
/// "step OP INTERPOLATION MAGNITUDE FINGERPRINT", which is - where pixels move.
class Recording {
 public:
  void add(const Example& example, const std::vector<uint8_t>& theirs) {
    if (example.before != last_) {
      out_ << "image " << example.height << ' ' << example.width << ' ' << example.channels;
      for (const int byte : example.before) out_ << ' ' << byte;
      out_ << '\n';
      last_ = example.before;
    }
    const auto& step = example.step;
    out_ << "step " << static_cast<int>(step.op) << ' ' << static_cast<int>(step.interpolation)
         << ' ' << step.magnitude << ' '
         << (test::moves(step.op) ? "-" : test::fingerprint(as_text(theirs))) << '\n';
  }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
  std::vector<uint8_t> last_;
};

}  // namespace

// Pixels that do not move are equal. Of those that do, neither ours nor torchvision's may be others
// than the step's (MovedImage says which these are), however the processor's matrix product rounds.
TEST_CASE("image operations equal torchvision's", "[image_op][parity]") {
  std::istringstream lines(test::recorded("image_ops.txt"));
  Example example;
  int compared = 0;
  for (std::string line, what; std::getline(lines, line);) {
    std::istringstream words(line);
    if (words >> what; what == "image") {
      REQUIRE(words >> example.height >> example.width >> example.channels);
      example.before.clear();
      for (int byte = 0; words >> byte;) example.before.push_back(static_cast<uint8_t>(byte));
      continue;
    }
    int op = 0, bilinear = 0;
    std::string expected;
    REQUIRE(words >> op >> bilinear >> example.step.magnitude >> expected);
    example.step.op = static_cast<ImageOp>(op);
    example.step.interpolation = static_cast<Interpolation>(bilinear);
    INFO(example.text());
    if (test::moves(example.step.op))
      CHECK(example.wrong(example.ours()) == 0);
    else
      CHECK(test::fingerprint(as_text(example.ours())) == expected);
    ++compared;
  }
  CHECK(compared > 1500);
}

TEST_CASE("image operations equal those of the torchvision that is installed",
          "[image_op][parity][peer][recorded][slow]") {
  const TemporaryFolder folder;
  if (!test::run_reference("pixels", folder)) return;
  std::ifstream cases(folder / "cases.txt"), before(folder / "before.bin", std::ios::binary);
  std::vector<std::ifstream> after;
  for (const char* product : {"native", "stepwise", "fused", "backwards"})
    after.emplace_back(folder / (std::string(product) + ".bin"), std::ios::binary);
  int op = 0, bilinear = 0;
  Example example;
  Recording recording;
  int compared = 0;
  while (cases >> op >> bilinear >> example.step.magnitude >> example.height >> example.width >>
         example.channels) {
    example.step.op = static_cast<ImageOp>(op);
    example.step.interpolation = static_cast<Interpolation>(bilinear);
    example.before =
        read(before, static_cast<size_t>(example.height * example.width * example.channels));
    const auto pixels = example.ours();
    INFO(example.text());
    if (test::moves(example.step.op)) CHECK(example.wrong(pixels) == 0);
    for (auto& file : after) {
      const auto expected = read(file, pixels.size());
      if (test::moves(example.step.op))
        CHECK(example.wrong(expected) == 0);
      else
        CHECK(pixels == expected);
      if (&file == &after[0]) recording.add(example, expected);
    }
    ++compared;
  }
  CHECK(compared > 1500);
  test::record("image_ops.txt", recording.text());
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

}  // namespace composer::image_op_test
