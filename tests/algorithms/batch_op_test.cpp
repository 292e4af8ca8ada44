#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "algorithms/augmentation/augment_batch.h"
#include "base/random.h"
#include "tests/algorithms/moved_pixels.h"
#include "tests/files.h"
#include "tests/gpu.h"

namespace composer::batch_op_test {

namespace {

constexpr int64_t kHeight = 37, kWidth = 52;

struct Case {
  ImageOp op;
  Interpolation interpolation;
  std::vector<double> magnitudes;
};

/// Magnitudes of the published policies, among them shears by 0.04 and 0.2, at which pixels lie
/// half-way between two others.
std::vector<Case> cases() {
  using enum ImageOp;
  const std::vector<double> shears{0, 0.04, -0.12, 0.2, -0.2, 0.3, -0.2871, 0.99},
      factors{0, 0.27, -0.27, 0.9, -0.9, 0.99, -0.99, -1}, none(8, 0.0);
  std::vector<Case> all;
  for (const auto how : {Interpolation::nearest, Interpolation::bilinear}) {
    all.push_back({shear_x, how, shears});
    all.push_back({shear_y, how, shears});
    all.push_back({translate_x, how, {0, 1, -1.9, 7.3, -7.3, 32, -51.5, 60}});
    all.push_back({translate_y, how, {0, 1, -1.9, 7.3, -7.3, 32, -36, 60}});
    all.push_back({rotate, how, {0, 1, -30, 30, 93.1, -45, 135, 12.3}});
  }
  for (const auto op : {brightness, color, contrast, sharpness})
    all.push_back({op, Interpolation::nearest, factors});
  all.push_back({posterize, Interpolation::nearest, {8, 7, 6, 5.9, 4, 2, 1, 0}});
  all.push_back({solarize, Interpolation::nearest, {255, 246.5, 200, 128, 127.5, 64, 1, 0}});
  for (const auto op : {identity, autocontrast, equalize, invert})
    all.push_back({op, Interpolation::nearest, none});
  return all;
}

/// uint8 [8, kHeight, kWidth, channels]: noise, bright and dark and dull noise, ramps, one colour,
/// few levels.
at::Tensor images_of(int64_t channels) {
  auto images = at::empty({8, kHeight, kWidth, channels}, at::kByte);
  auto* value = images.data_ptr<uint8_t>();
  for (int64_t image = 0; image < 8; ++image) {
    Random random(5, "noise", 0, static_cast<uint64_t>(image));
    for (int64_t i = 0; i < kHeight * kWidth * channels; ++i) {
      const int64_t noise = random.below(256), x = i / channels % kWidth;
      const int64_t kinds[]{noise,         200 + noise / 8, noise / 16, 100 + noise / 4,
                            4 * x + i % 3, i / 30 % 256,    77,         noise / 64 * 50};
      *value++ = static_cast<uint8_t>(kinds[image]);
    }
  }
  return images;
}

/// Python that changes the images of the files `in1` and `in3`, by their number of channels.
std::string script_of(const std::vector<Case>& all) {
  static constexpr const char* names[]{"Identity",     "ShearX",    "ShearY",     "TranslateX",
                                       "TranslateY",   "Rotate",    "Brightness", "Color",
                                       "Contrast",     "Sharpness", "Posterize",  "Solarize",
                                       "AutoContrast", "Equalize",  "Invert"};
  std::ostringstream script;
  script.precision(17);
  script << "import numpy\nimport torch\n"
            "from torchvision.transforms import InterpolationMode\n"
            "from torchvision.transforms.autoaugment import _apply_op\n"
            "torch.set_num_threads(1)\ncases = [";
  for (const auto& [op, how, magnitudes] : all) {
    script << "('" << names[static_cast<size_t>(op)] << "', '"
           << (how == Interpolation::nearest ? "nearest" : "bilinear") << "', [";
    for (const double m : magnitudes) script << static_cast<double>(static_cast<float>(m)) << ", ";
    script << "]), ";
  }
  script << "]\nfor channels in '13':\n"
            "  images = torch.from_numpy(numpy.fromfile('in' + channels, numpy.uint8))\n"
            "  images = images.reshape(8, "
         << kHeight << ", " << kWidth
         << ", -1).permute(0, 3, 1, 2)\n"
            "  with open('out' + channels, 'wb') as out:\n"
            "    for name, mode, magnitudes in cases:\n"
            "      for image, m in zip(images, magnitudes):\n"
            "        changed = _apply_op(image, name, m, InterpolationMode(mode), None)\n"
            "        out.write(changed.permute(1, 2, 0).contiguous().numpy().tobytes())\n";
  return script.str();
}

/// What torchvision makes of images of 1 and of 3 channels: cases x the images' shape.
std::array<at::Tensor, 2> references(const std::array<at::Tensor, 2>& images,
                                     const std::vector<Case>& all) {
  const TemporaryFolder folder;
  for (const auto& batch : images) {
    const auto* bytes = reinterpret_cast<const char*>(batch.data_ptr<uint8_t>());
    test::write_file(folder / ("in" + std::to_string(batch.size(3))),
                     {bytes, static_cast<size_t>(batch.numel())});
  }
  REQUIRE(test::run_python(script_of(all), folder));
  std::array<at::Tensor, 2> results;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t channels = images[i].size(3);
    results[i] =
        at::empty({static_cast<int64_t>(all.size()), 8, kHeight, kWidth, channels}, at::kByte);
    const auto out = test::read_bytes(folder / ("out" + std::to_string(channels)));
    REQUIRE(static_cast<int64_t>(out.size()) == results[i].numel());
    std::memcpy(results[i].data_ptr(), out.data(), out.size());
  }
  return results;
}

at::Tensor distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.cpu().to(at::kInt) - b.cpu().to(at::kInt)).abs();
}

/// Of all images, those that no rounding explains: see MovedImage.
int64_t wrong_pixels(const Case& moved, const at::Tensor& images, const at::Tensor& changed) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < images.size(0); ++i) {
    const double magnitude = static_cast<float>(moved.magnitudes[static_cast<size_t>(i)]);
    const ImageStep step{moved.op, magnitude, moved.interpolation};
    wrong += test::MovedImage{step,
                              {kHeight, kWidth},
                              images.size(3),
                              images[i].data_ptr<uint8_t>(),
                              changed[i].data_ptr<uint8_t>()}
                 .wrong();
  }
  return wrong;
}

/// The native functions, image by image.
template <class Draw>
at::Tensor one_by_one(const at::Tensor& images, const std::vector<Draw>& draws) {
  auto changed = images.clone();
  for (size_t i = 0; i < draws.size(); ++i) {
    auto image = changed[static_cast<int64_t>(i)];
    apply_draw(draws[i], {image.data_ptr<uint8_t>(), image.size(0), image.size(1), image.size(2)});
  }
  return changed;
}

Steps draw_steps(size_t count, Random& random) {
  const auto all = cases();
  Steps steps;
  while (steps.size() < count) {
    const auto& one = all[static_cast<size_t>(random.below(static_cast<int64_t>(all.size())))];
    steps.push_back(
        {one.op, one.magnitudes[static_cast<size_t>(random.below(8))], one.interpolation});
  }
  return steps;
}

}  // namespace

TEST_CASE("batched image operations equal torchvision's",
          "[augmentation][gpu][parity][peer][slow]") {
  if (!test::has_python() && std::getenv("COMPOSER_TEST_PYTHON") == nullptr) {
    WARN("skipped: the peers of tests/peers.txt are not installed");
    return;
  }
  const auto all = cases();
  const std::array<at::Tensor, 2> images{images_of(1), images_of(3)};
  const auto expected = references(images, all);
  for (const auto device : test::devices())
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t set = 0; set < 2; ++set) {
        const auto& [op, how, magnitudes] = all[i];
        const auto changed =
            apply(op, images[set].to(device), at::tensor(magnitudes).to(at::kFloat).to(device), how)
                .cpu();
        const auto& theirs = expected[set][static_cast<int64_t>(i)];
        INFO(image_op_names[static_cast<size_t>(op)] << " on " << device.str());
        REQUIRE(changed.sizes() == images[set].sizes());
        if (test::moves(op)) {
          CHECK(wrong_pixels(all[i], images[set], changed) == 0);
          CHECK(wrong_pixels(all[i], images[set], theirs) == 0);
          continue;
        }
        const auto off = distance(changed, theirs);
        CHECK(off.max().item<int>() <= 1);
        CHECK(off.gt(0).to(at::kDouble).mean().item<double>() < 1e-3);
      }
}

TEST_CASE("a batch of steps equals the steps image by image", "[augmentation][gpu]") {
  const auto images = images_of(3).repeat({4, 1, 1, 1});
  std::vector<Steps> steps;
  for (size_t i = 0; i < 32; ++i) {
    Random random(7, "steps", 0, i);
    steps.push_back(draw_steps(i % 4, random));
  }
  const auto expected = one_by_one(images, steps);
  for (const auto device : test::devices()) {
    const auto given = images.to(device);
    const auto changed = apply_batched(given, steps);
    CHECK(at::equal(given.cpu(), images));
    CHECK(at::equal(changed.cpu().slice(0, 0, 32, 4), images.slice(0, 0, 32, 4)));
    CHECK(distance(changed, expected).gt(1).to(at::kDouble).mean().item<double>() < 0.005);
  }
  CHECK(at::equal(apply_batched(images, std::vector<Steps>(32)), images));
}

TEST_CASE("a batch of AugMix draws equals the draws image by image", "[augmentation][gpu]") {
  const auto images = images_of(3);
  std::vector<AugMixDraw> draws;
  for (size_t i = 0; i < 8; ++i) {
    Random random(9, "draws", 0, i);
    AugMixDraw draw{.chains = {}, .weights = {0.5, 0.125, 0.375}, .mixing = random.uniform()};
    for (size_t chain = 0; chain < 3; ++chain)
      draw.chains.push_back(draw_steps(1 + (i + chain) % 3, random));
    draws.push_back(draw);
  }
  draws[3].mixing = 0;
  draws[4] = {};
  const auto expected = one_by_one(images, draws);
  for (const auto device : test::devices()) {
    const auto mixed = apply_batched(images.to(device), draws);
    CHECK(distance(mixed, expected).gt(1).to(at::kDouble).mean().item<double>() < 0.005);
    CHECK(at::equal(mixed[3].cpu(), images[3]));
    CHECK(at::equal(mixed[4].cpu(), images[4]));
  }
}

}  // namespace composer::batch_op_test
