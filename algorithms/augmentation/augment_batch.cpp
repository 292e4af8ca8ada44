#include "algorithms/augmentation/augment_batch.h"

#include <ATen/Parallel.h>

#include <numbers>
#include <sstream>

#include "base/error.h"
#include "nn/device/device.h"

namespace composer {
namespace {

void check_images(const at::Tensor& images) {
  if (images.scalar_type() == at::kByte && images.dim() == 4 &&
      (images.size(3) == 1 || images.size(3) == 3))
    return;
  std::ostringstream message;
  message << "augment_batch takes uint8 images [N, H, W, 1 or 3], not " << images.scalar_type()
          << ' ' << images.sizes();
  throw RunError(message.str());
}

template <class Draw>
at::Tensor augment(const at::Tensor& images, const std::function<Draw(int64_t)>& draw) {
  check_images(images);
  const int64_t n = images.size(0);
  if (!images.is_cpu()) {
    std::vector<Draw> draws;
    for (int64_t i = 0; i < n; ++i) draws.push_back(draw(i));
    return apply_batched(images, draws);
  }
  const auto changed = images.clone(at::MemoryFormat::Contiguous);
  uint8_t* const pixels = changed.mutable_data_ptr<uint8_t>();
  const int64_t height = images.size(1), width = images.size(2), channels = images.size(3);
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      apply_draw(draw(i), {pixels + i * height * width * channels, height, width, channels});
  });
  return changed;
}

/// [n] -> a factor of images [n, H, W, C].
at::Tensor per_sample(const at::Tensor& values) { return values.view({-1, 1, 1, 1}); }

/// factor * images + (1 - factor) * other, truncated, where factor = 1 + magnitude.
at::Tensor blend(const at::Tensor& images, const at::Tensor& other, const at::Tensor& magnitudes) {
  const auto factor = magnitudes.to(at::kDouble) + 1;
  auto blended = images * per_sample(factor.to(at::kFloat));
  blended.add_(other * per_sample((1 - factor).to(at::kFloat)));
  return blended.clamp_(0, 255).to(at::kByte);
}

/// The grey levels of the images: uint8 [n, H, W, 1].
at::Tensor luma(const at::Tensor& images) {
  if (images.size(3) == 1) return images;
  const auto channel = [&](int64_t c, double weight) { return images.narrow(3, c, 1) * weight; };
  return (channel(0, 0.2989) + channel(1, 0.587) + channel(2, 0.114)).to(at::kByte);
}

at::Tensor change_brightness(const at::Tensor& images, const at::Tensor& magnitudes) {
  const auto factor = (magnitudes.to(at::kDouble) + 1).to(at::kFloat);
  return (images * per_sample(factor)).clamp_(0, 255).to(at::kByte);
}

at::Tensor change_contrast(const at::Tensor& images, const at::Tensor& magnitudes) {
  const auto gray = luma(images);
  const auto mean = gray.sum({1, 2, 3}, /*keepdim=*/true).to(at::kDouble) /
                    static_cast<double>(gray.size(1) * gray.size(2));
  return blend(images, mean.to(at::kFloat), magnitudes);
}

at::Tensor change_color(const at::Tensor& images, const at::Tensor& magnitudes) {
  return images.size(3) == 1 ? images.clone() : blend(images, luma(images), magnitudes);
}

/// Blends with the images smoothed by [[1, 1, 1], [1, 5, 1], [1, 1, 1]] / 13, the border as it was.
at::Tensor change_sharpness(const at::Tensor& images, const at::Tensor& magnitudes) {
  const int64_t height = images.size(1), width = images.size(2);
  if (height <= 2 || width <= 2) return images.clone();
  const auto inner = [&](const at::Tensor& all) {
    return all.narrow(1, 1, height - 2).narrow(2, 1, width - 2);
  };
  const auto wide = images.to(at::kShort);
  const auto three = [](const at::Tensor& all, int64_t dim) {
    const int64_t n = all.size(dim) - 2;
    return (all.narrow(dim, 0, n) + all.narrow(dim, 1, n)).add_(all.narrow(dim, 2, n));
  };
  const auto sum = three(three(wide, 1), 2).add_(inner(wide), 4);
  auto smooth = images.clone();
  inner(smooth).copy_(sum.mul_(2).add_(13).floor_divide_(26));
  return blend(images, smooth, magnitudes);
}

at::Tensor posterize(const at::Tensor& images, const at::Tensor& magnitudes) {
  const auto cleared = 8 - magnitudes.to(at::kInt).clamp_(0, 8);
  const auto mask = at::full_like(cleared, 255).bitwise_left_shift(cleared).bitwise_and(255);
  return images.bitwise_and(per_sample(mask.to(at::kByte)));
}

at::Tensor solarize(const at::Tensor& images, const at::Tensor& magnitudes) {
  return at::where(images >= per_sample(magnitudes), images.bitwise_not(), images);
}

/// Stretches each channel to 0..255.
at::Tensor autocontrast(const at::Tensor& images) {
  const auto least = images.amin({1, 2}, /*keepdim=*/true).to(at::kFloat);
  const auto range = images.amax({1, 2}, /*keepdim=*/true).to(at::kFloat) - least;
  const auto flat = range == 0;
  const auto scale = range.reciprocal().mul_(255).masked_fill_(flat, 1);
  return (images - least.masked_fill(flat, 0)).mul_(scale).clamp_(0, 255).to(at::kByte);
}

/// Equalizes the histogram of each channel by a table per channel.
at::Tensor equalize(const at::Tensor& images) {
  const int64_t n = images.size(0), channels = images.size(3), tables = n * channels;
  const auto longs = images.options().dtype(at::kLong);
  const auto table = at::arange(0, tables * 256, 256, longs).view({n, 1, 1, channels});
  const auto bin = (images + table).flatten();
  auto counts = at::zeros({tables * 256}, longs);
  {
    const AnyOrder integers;
    counts.scatter_add_(0, bin, at::ones({1}, longs).expand_as(bin));
  }
  counts = counts.view({tables, 256});
  const auto brightest = images.amax({1, 2}).view({tables, 1}).to(at::kLong);
  const auto darker = counts.sum(1, /*keepdim=*/true) - counts.gather(1, brightest);
  const auto step = darker.floor_divide(255);
  const auto below = counts.cumsum(1) - counts;
  auto even = (below + step.floor_divide(2)).floor_divide_(step.clamp_min(1)).clamp_(0, 255);
  even.select(1, 0).zero_();
  even = at::where(step == 0, at::arange(256, longs), even).to(at::kByte);
  return even.flatten().index_select(0, bin).view(images.sizes());
}

struct Coefficients {
  /// float64 [n]. The pixel (x, y) is read at (xx * x + xy * y + x0, yx * x + yy * y + y0), in
  /// pixels from the centre.
  at::Tensor xx, xy, x0, yx, yy, y0;
};

Coefficients coefficients(ImageOp op, const at::Tensor& magnitudes, int64_t height, int64_t width) {
  const auto m = magnitudes.to(at::kDouble);
  const auto zero = at::zeros_like(m), one = at::ones_like(m);
  switch (op) {
    case ImageOp::shear_x:
      return {one, m, m * (0.5 * static_cast<double>(height)), zero, one, zero};
    case ImageOp::shear_y:
      return {one, zero, zero, m, one, m * (0.5 * static_cast<double>(width))};
    case ImageOp::translate_x:
      return {one, zero, -m.trunc(), zero, one, zero};
    case ImageOp::translate_y:
      return {one, zero, zero, zero, one, -m.trunc()};
    default: {
      const auto angle = m * (std::numbers::pi / 180);
      const auto cosine = angle.cos(), sine = angle.sin();
      return {cosine, -sine, zero, sine, cosine, zero};
    }
  }
}

/// values / divisor in float32, rounded as on the CPU: CUDA would multiply by 1 / divisor if the
/// divisor were not in device memory.
at::Tensor divided(const at::Tensor& values, double divisor) {
  const auto floats = values.to(at::kFloat);
  return floats / at::full({}, divisor, floats.options());
}

/// Moves pixels. Half-way between two pixels, float32 rounding decides which is nearest; terms are
/// therefore rounded and added as in torchvision's matrix product on the CPU.
at::Tensor move(const at::Tensor& images, const Coefficients& from, Interpolation interpolation) {
  const int64_t height = images.size(1), width = images.size(2);
  const auto axis = [&](int64_t length) {
    const double half = 0.5 * static_cast<double>(length);
    return at::arange(0.5 - half, half, images.options().dtype(at::kFloat));
  };
  const auto x = axis(width).view({1, 1, -1}), y = axis(height).view({1, -1, 1});
  const auto coordinate = [&](const at::Tensor& of_x, const at::Tensor& of_y,
                              const at::Tensor& offset, int64_t length) {
    const auto scaled = [&](const at::Tensor& values) {
      return divided(values, 0.5 * static_cast<double>(length)).view({-1, 1, 1});
    };
    const auto by_x = (x * scaled(of_x)).to(at::kDouble);
    const auto by_y = y.to(at::kDouble) * scaled(of_y);
    return (by_x + by_y).to(at::kFloat).add_(scaled(offset));
  };
  const auto grid = at::stack(
      {coordinate(from.xx, from.xy, from.x0, width), coordinate(from.yx, from.yy, from.y0, height)},
      3);
  constexpr int64_t bilinear = 0, nearest = 1, zeros = 0;
  const auto moved =
      at::grid_sampler(images.permute({0, 3, 1, 2}).to(at::kFloat), grid,
                       interpolation == Interpolation::nearest ? nearest : bilinear, zeros,
                       /*align_corners=*/false);
  return moved.round_().to(at::kByte).permute({0, 2, 3, 1}).contiguous();
}

bool moves(ImageOp op) {
  return op == ImageOp::shear_x || op == ImageOp::shear_y || op == ImageOp::translate_x ||
         op == ImageOp::translate_y || op == ImageOp::rotate;
}

/// Samples that are changed together: a range of Plan's lists.
struct Group {
  ImageOp op;
  Interpolation interpolation;
  int64_t begin, size;
};

struct Plan {
  std::vector<Group> groups;  ///< in order of execution
  std::vector<double> samples, magnitudes;

  void add(ImageOp op, Interpolation interpolation, const std::vector<Steps>& steps, size_t at) {
    const auto begin = static_cast<int64_t>(samples.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      if (at >= steps[i].size() || steps[i][at].op != op) continue;
      if (moves(op) && steps[i][at].interpolation != interpolation) continue;
      samples.push_back(static_cast<double>(i));
      magnitudes.push_back(steps[i][at].magnitude);
    }
    const auto size = static_cast<int64_t>(samples.size()) - begin;
    if (size > 0) groups.push_back({op, interpolation, begin, size});
  }
};

Plan plan(const std::vector<Steps>& steps) {
  size_t most = 0;
  for (const auto& list : steps) most = std::max(most, list.size());
  Plan plan;
  for (size_t at = 0; at < most; ++at)
    for (size_t i = 1; i < image_op_names.size(); ++i) {
      const auto op = static_cast<ImageOp>(i);
      plan.add(op, Interpolation::nearest, steps, at);
      if (moves(op)) plan.add(op, Interpolation::bilinear, steps, at);
    }
  return plan;
}

}  // namespace

at::Tensor augment_batch(const at::Tensor& images, const std::function<Steps(int64_t)>& draw) {
  return augment(images, draw);
}

at::Tensor augment_batch(const at::Tensor& images, const std::function<AugMixDraw(int64_t)>& draw) {
  return augment(images, draw);
}

at::Tensor apply(ImageOp op, const at::Tensor& images, const at::Tensor& magnitudes,
                 Interpolation interpolation) {
  switch (op) {
    case ImageOp::identity:
      return images.clone();
    case ImageOp::brightness:
      return change_brightness(images, magnitudes);
    case ImageOp::color:
      return change_color(images, magnitudes);
    case ImageOp::contrast:
      return change_contrast(images, magnitudes);
    case ImageOp::sharpness:
      return change_sharpness(images, magnitudes);
    case ImageOp::posterize:
      return posterize(images, magnitudes);
    case ImageOp::solarize:
      return solarize(images, magnitudes);
    case ImageOp::autocontrast:
      return autocontrast(images);
    case ImageOp::equalize:
      return equalize(images);
    case ImageOp::invert:
      return images.bitwise_not();
    default:
      return move(images, coefficients(op, magnitudes, images.size(1), images.size(2)),
                  interpolation);
  }
}

at::Tensor apply_batched(const at::Tensor& images, const std::vector<Steps>& steps) {
  const auto [groups, samples, magnitudes] = plan(steps);
  auto changed = images.clone();
  if (groups.empty()) return changed;
  auto both = samples;
  both.insert(both.end(), magnitudes.begin(), magnitudes.end());
  const auto drawn = copy_to(images.device(), at::tensor(both, at::kDouble)).view({2, -1});
  const auto rows = drawn[0].to(at::kLong), strengths = drawn[1].to(at::kFloat);
  for (const auto& [op, interpolation, begin, size] : groups) {
    const auto row = rows.narrow(0, begin, size);
    const auto done =
        apply(op, changed.index_select(0, row), strengths.narrow(0, begin, size), interpolation);
    const AnyOrder each_row_once;
    changed.index_copy_(0, row, done);
  }
  return changed;
}

at::Tensor apply_batched(const at::Tensor& images, const std::vector<AugMixDraw>& draws) {
  size_t width = 0;
  for (const auto& draw : draws) width = std::max(width, draw.chains.size());
  std::vector<Steps> steps;     // first chains of all images, then second chains, ...
  std::vector<double> weights;  // weights of the images, then of the chains in the order of steps
  for (const auto& draw : draws) weights.push_back(1 - draw.mixing);
  for (size_t chain = 0; chain < width; ++chain)
    for (const auto& draw : draws) {
      const bool present = chain < draw.chains.size();
      steps.push_back(present ? draw.chains[chain] : Steps{});
      weights.push_back(present ? draw.mixing * draw.weights[chain] : 0);
    }
  const int64_t n = images.size(0), chains = static_cast<int64_t>(width);
  const auto weight = copy_to(images.device(), at::tensor(weights, at::kDouble))
                          .to(at::kFloat)
                          .view({chains + 1, n, 1, 1, 1});
  auto mixed = images * weight[0];
  const auto changed = apply_batched(images.repeat({chains, 1, 1, 1}), steps);
  for (int64_t chain = 0; chain < chains; ++chain)
    mixed.add_(changed.narrow(0, chain * n, n) * weight[chain + 1]);
  return mixed.to(at::kByte);
}

}  // namespace composer
