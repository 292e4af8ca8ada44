#include "algorithms/random_erasing.h"

#include <ATen/Parallel.h>

#include <numbers>

#include "composer/loop/state.h"
#include "nn/device/device.h"

namespace composer {
namespace {

constexpr uint64_t golden = 0x9E3779B97F4A7C15, first_factor = 0xBF58476D1CE4E5B9,
                   second_factor = 0x94D049BB133111EB;

/// erasure_noise() of int64 tensors that broadcast; float32.
at::Tensor noise_of(const at::Tensor& keys, const at::Tensor& counters) {
  const auto number = [](uint64_t bits) { return static_cast<int64_t>(bits); };
  const auto folded = [&](const at::Tensor& bits, int64_t shift) {
    const auto high = bits.bitwise_right_shift(shift).bitwise_and_(number(~0ULL >> shift));
    return bits.bitwise_xor(high);
  };
  auto bits = keys + (counters + 1) * number(golden);
  bits = folded(bits, 30).mul_(number(first_factor));
  bits = folded(bits, 27).mul_(number(second_factor));
  bits = folded(bits, 31);
  constexpr int64_t low = 0xFFFFFFFF;
  constexpr float scale = 0x1p-32f;
  const auto radius = bits.bitwise_right_shift(32).bitwise_and_(low).add_(1).to(at::kFloat);
  const auto angle = bits.bitwise_and(low).to(at::kFloat);
  return radius.mul_(scale).log_().mul_(-2).sqrt_().mul_(
      (angle * (scale * 2 * std::numbers::pi_v<float>)).cos_());
}

/// The pixels of all boxes: int64 [pixels] each.
struct Pixels {
  at::Tensor box, index, sample, row, column;
};

/// table: int64 [boxes, 6]: sample, top, left, width, key, number of pixels in the boxes before.
Pixels pixels_of(const at::Tensor& table, const at::Tensor& counts, int64_t total) {
  const auto box = at::repeat_interleave(counts, std::optional<int64_t>(total));
  const auto of_box = table.index_select(0, box).unbind(1);
  const auto index = at::arange(total, table.options()) - of_box[5];
  const auto row = index.floor_divide(of_box[3]);
  return {box, index, of_box[0], row + of_box[1], index - row * of_box[3] + of_box[2]};
}

uint8_t byte_of(double normalised, const Normalization& normalization, int64_t channel) {
  const auto c = static_cast<size_t>(channel);
  const double value = normalization.mean[c] + normalization.std[c] * normalised;
  return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
}

void erase_one(at::TensorAccessor<float, 4> images, const Erasure& erasure, Eraser eraser) {
  const auto& [sample, box, key] = erasure;
  const int64_t channels = images.size(1);
  for (int64_t c = 0; c < channels; ++c) {
    auto counter = static_cast<uint64_t>(c);
    const float colour = eraser == Eraser::zero ? 0 : erasure_noise(key, counter);
    for (int64_t y = box.top; y < box.top + box.height; ++y)
      for (int64_t x = box.left; x < box.left + box.width; ++x) {
        images[sample][c][y][x] = eraser == Eraser::pixel ? erasure_noise(key, counter) : colour;
        counter += static_cast<uint64_t>(channels);
      }
  }
}

}  // namespace

float erasure_noise(uint64_t key, uint64_t counter) {
  uint64_t bits = key + (counter + 1) * golden;
  bits = (bits ^ bits >> 30) * first_factor;
  bits = (bits ^ bits >> 27) * second_factor;
  bits ^= bits >> 31;
  constexpr float scale = 0x1p-32f;
  const auto radius = static_cast<float>((bits >> 32) + 1) * scale;
  const auto angle = static_cast<float>(bits & 0xFFFFFFFF) * scale;
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi_v<float> * angle);
}

std::vector<Erasure> draw_erasures(const ErasureLaw& law, ImageSize image, int64_t sample,
                                   Random& random) {
  const auto draw = [&](double area) -> Box {
    const double widest = -std::log(law.min_aspect);
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double erased = area * random.uniform(law.min_area, law.max_area);
      const double aspect = std::exp(random.uniform(-widest, widest));
      const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(erased * aspect)));
      const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(erased / aspect)));
      if (height >= image.height || width >= image.width) continue;
      return box_within(image, {height, width}, random);
    }
    return {};
  };
  std::vector<Erasure> erasures;
  const int64_t count = 1 + random.below(law.max_count);
  const double share = static_cast<double>(image.height * image.width) / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) {
    const auto box = draw(share);
    const uint64_t high = random.bits(), low = random.bits();
    if (box.height > 0 && box.width > 0) erasures.push_back({sample, box, high << 32 | low});
  }
  return erasures;
}

void erase(const at::Tensor& images, const std::vector<Erasure>& erasures, Eraser eraser) {
  const auto values = images.accessor<float, 4>();
  const auto count = static_cast<int64_t>(erasures.size());
  const int64_t a_thread = eraser == Eraser::pixel ? 1 : count;  // only noise takes time
  at::parallel_for(0, count, a_thread, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      erase_one(values, erasures[static_cast<size_t>(i)], eraser);
  });
}

void erase_batched(const at::Tensor& images, const std::vector<Erasure>& erasures, Eraser eraser) {
  if (erasures.empty()) return;
  std::vector<int64_t> rows, counts;
  int64_t total = 0;
  for (const auto& [sample, box, key] : erasures) {
    const std::array<int64_t, 6> row{
        sample, box.top, box.left, box.width, static_cast<int64_t>(key), total};
    rows.insert(rows.end(), row.begin(), row.end());
    counts.push_back(box.height * box.width);
    total += counts.back();
  }
  rows.insert(rows.end(), counts.begin(), counts.end());
  const auto drawn = copy_to(images.device(), at::tensor(rows));
  const auto boxes = static_cast<int64_t>(erasures.size());
  const auto table = drawn.narrow(0, 0, 6 * boxes).view({boxes, 6});
  const auto pixels = pixels_of(table, drawn.narrow(0, 6 * boxes, boxes), total);

  const int64_t channels = images.size(1);
  const auto channel = at::arange(channels, table.options());
  const auto keys = table.narrow(1, 4, 1);
  at::Tensor values = at::zeros({}, images.options());
  if (eraser == Eraser::channel) values = noise_of(keys, channel).index_select(0, pixels.box);
  if (eraser == Eraser::pixel)
    values = noise_of(keys.index_select(0, pixels.box),
                      (pixels.index * channels).unsqueeze(1) + channel);
  const AnyOrder each_pixel_once;
  const c10::List<std::optional<at::Tensor>> erased({pixels.sample, pixels.row, pixels.column});
  images.permute({0, 2, 3, 1}).index_put_(erased, values.to(images.scalar_type()));
}

void erase(const MutableImage& image, const Erasure& erasure, Eraser eraser,
           const Normalization& normalization) {
  const auto& [top, left, height, width] = erasure.box;
  const int64_t channels = image.channels;
  const auto value = [&](int64_t index, int64_t channel) {
    if (eraser == Eraser::zero) return byte_of(0, normalization, channel);
    const int64_t first = eraser == Eraser::pixel ? index * channels : 0;
    return byte_of(erasure_noise(erasure.key, static_cast<uint64_t>(first + channel)),
                   normalization, channel);
  };
  std::array<uint8_t, 3> colour{};
  for (int64_t c = 0; c < channels; ++c) colour[static_cast<size_t>(c)] = value(0, c);
  for (int64_t row = 0; row < height; ++row) {
    uint8_t* out = image.pixels + ((top + row) * image.width + left) * channels;
    for (int64_t column = 0; column < width; ++column)
      for (int64_t c = 0; c < channels; ++c)
        *out++ = eraser == Eraser::pixel ? value(row * width + column, c)
                                         : colour[static_cast<size_t>(c)];
  }
}

RandomErasing::RandomErasing(Params params)
    : params_(std::move(params)),
      eraser_(params_.mode == "const"     ? Eraser::zero
              : params_.mode == "channel" ? Eraser::channel
                                          : Eraser::pixel) {}

Compatibility RandomErasing::compatibility() {
  return {.needs = {{"train_dataset.*.transforms.random_erasing",
                     {"0"},
                     "the set's own transform would erase a second time"}}};
}

void RandomErasing::after_dataloader(State& state) {
  const auto& images = state.batch.input;
  // Rectangles of an image may overlap: the second rectangles are erased after all first ones.
  std::vector<std::vector<Erasure>> rounds(static_cast<size_t>(params_.law.max_count));
  for (int64_t sample = 0; sample < images.size(0); ++sample) {
    Random random(state.seed, "random_erasing.batch", static_cast<uint64_t>(state.time.batch),
                  static_cast<uint64_t>(state.first_sample + sample));
    if (random.uniform() >= params_.probability) continue;
    const auto erasures = draw_erasures(params_.law, size_of(images), sample, random);
    for (size_t i = 0; i < erasures.size(); ++i) rounds[i].push_back(erasures[i]);
  }
  for (const auto& erasures : rounds)
    if (images.is_cpu())
      erase(images, erasures, eraser_);
    else
      erase_batched(images, erasures, eraser_);
}

SampleTransform RandomErasing::sample_transform(const State& state) {
  if (params_.where != "loader") return {};
  return [params = params_, eraser = eraser_, normalization = state.normalization](
             const MutableImage& image, const SampleKey& key) {
    Random random(key.seed, "random_erasing.sample", key.epoch, key.sample);
    if (random.uniform() >= params.probability) return;
    const ImageSize size{image.height, image.width};
    for (const auto& erasure : draw_erasures(params.law, size, 0, random))
      erase(image, erasure, eraser, normalization);
  };
}

}  // namespace composer
