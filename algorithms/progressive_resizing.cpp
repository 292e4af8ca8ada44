#include "algorithms/progressive_resizing.h"

#include "algorithms/parts/schedule.h"
#include "algorithms/parts/whole_batch.h"
#include "base/error.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"

namespace composer {
namespace {

at::Tensor crop(const at::Tensor& images, ImageSize size, Random random) {
  const auto full = size_of(images);
  const auto offset = [&](int64_t room) { return room > 0 ? random.below(room) : 0; };
  const int64_t top = offset(full.height - size.height), left = offset(full.width - size.width);
  return images.narrow(2, top, size.height).narrow(3, left, size.width);
}

}  // namespace

at::Tensor resize_batch(const at::Tensor& images, ImageSize size, std::string_view mode,
                        Random random, at::MemoryFormat format) {
  if (mode != "resize" && mode != "crop")
    throw UserError("resize_batch: unknown mode '" + std::string(mode) + "'; use resize or crop");
  if (size == size_of(images)) return images;
  const auto smaller = mode == "crop"
                           ? crop(images, size, random)
                           : at::_upsample_bilinear2d_aa(images, {size.height, size.width}, false);
  return smaller.contiguous(format);
}

std::string ProgressiveResizing::Params::check() const {
  const char* targets =
      resize_targets ? "resize_targets: must be false: the target of a classification has no size"
                     : "";
  const char* loader = where == "loader" && mode == "crop"
                           ? "where: the loader does not crop; use mode: resize or where: device\n"
                           : "";
  return check_shares(delay_fraction, finetune_fraction) + loader + targets;
}

double ProgressiveResizing::scale(double elapsed, const Params& params) {
  return grown_scale(elapsed, params.initial_scale, params.delay_fraction,
                     params.finetune_fraction);
}

ImageSize ProgressiveResizing::size(ImageSize full, double scale, const Params& params) {
  if (scale >= 1) return full;
  const auto increment = static_cast<double>(params.size_increment);
  const auto steps =
      static_cast<int64_t>(std::nearbyint(static_cast<double>(full.width) * scale / increment));
  const int64_t width = std::min(std::max<int64_t>(steps, 1) * params.size_increment, full.width);
  return {std::max<int64_t>(full.height * width / full.width, 1), width};
}

SizePlan ProgressiveResizing::image_sizes(const State& state) {
  const bool timed = state.run_length.max_duration.unit == TimeUnit::second;
  if (params_.where == "loader" && timed)
    throw UserError(
        "algorithms.progressive_resizing.where: the loader needs a max_duration in ep, ba or sp; "
        "use device");
  if (params_.where == "device" || timed || params_.mode == "crop") return {};
  return [run_length = state.run_length, full = state.image_size, params = params_](int64_t batch) {
    return size(full, scale(run_length.elapsed(run_length.at_batch(batch)), params), params);
  };
}

void ProgressiveResizing::after_dataloader(State& state) {
  const double factor = scale(state.elapsed(), params_);
  const auto wanted = size(state.image_size, factor, params_);
  const Random random(state.seed, "progressive_resizing.crop", 0,
                      static_cast<uint64_t>(state.time.batch));
  auto& images = state.batch.input;
  images = resize_batch(images, wanted, params_.mode, random, state.memory_format);
  state.logger->log("progressive_resizing/height", static_cast<double>(wanted.height));
  state.logger->log("progressive_resizing/width", static_cast<double>(wanted.width));
  state.logger->log("progressive_resizing/scale_factor", factor);
}

std::vector<std::pair<std::string, double>> ProgressiveResizing::planned(const State& state) const {
  const double factor = scale(state.elapsed(), params_);
  const auto wanted = size(state.image_size, factor, params_);
  return {{"progressive_resizing/scale_factor", factor},
          {"progressive_resizing/height", static_cast<double>(wanted.height)},
          {"progressive_resizing/width", static_cast<double>(wanted.width)}};
}

}  // namespace composer
