#include "composer/callbacks/image_monitor.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/number_text.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/network/normalize.h"

namespace composer {
namespace {

/// Whether the batch that begins is the first after a due end of one.
bool is_due(const State& state, const Time& interval) {
  const auto& time = state.time;
  return time.batch == 0 || state.run_length.due(interval, time, false) ||
         (time.batch_in_epoch == 0 && state.run_length.due(interval, time, true));
}

}  // namespace

void ImageMonitor::batch_start(const State& state, Logger& logger, RunControl&) {
  if (!is_due(state, params_.interval)) return;
  const at::NoGradGuard no_grad;
  const int64_t shown = std::min(params_.num_images, state.batch.samples());
  const int64_t channels = shown > 0 ? state.batch.input.size(1) : 0;
  if (channels != 1 && channels != 3) return;
  auto captions = label_texts(state.batch.target.slice(0, shown), state.class_names);
  const bool is_whole = state.indices.defined() && state.indices.size(0) == state.batch.samples();
  for (int64_t i = 0; is_whole && i < shown; ++i)
    if (const auto text = state.sample_text(i); !text.empty())
      captions[static_cast<size_t>(i)] += ", " + text;
  logger.log_images("images/train",
                    denormalize(state.batch.input.slice(0, 0, shown), state.normalization),
                    std::move(captions));
}

namespace {

/// Of every sample its values, with the names of those that have one.
std::vector<std::string> value_texts(const at::Tensor& values,
                                     const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < values.size(0); ++i) {
    auto& text = texts.emplace_back();
    for (int64_t k = 0; k < values.size(1); ++k) {
      if (k > 0) text += ", ";
      if (k < std::ssize(names)) text += names[static_cast<size_t>(k)] + " ";
      text += number_text(values[i][k].item<double>(), 2);
    }
  }
  return texts;
}

}  // namespace

at::Tensor denormalize(const at::Tensor& input, const Normalization& normalization) {
  return to_bytes(pixel_values(input, normalization));
}

std::vector<std::string> label_texts(const Target& target, const std::vector<std::string>& names) {
  if (target.values.defined()) return value_texts(target.values.cpu(), names);
  const auto classes = target.classes.cpu();
  const auto others = target.other_classes.defined() ? target.other_classes.cpu() : at::Tensor();
  const auto weights = others.defined() ? target.other_weight.cpu() : at::Tensor();
  const auto name = [&](int64_t index) {
    return index >= 0 && index < std::ssize(names) ? names[static_cast<size_t>(index)]
                                                   : std::to_string(index);
  };
  std::vector<std::string> texts;
  for (int64_t i = 0; i < classes.size(0); ++i) {
    const auto own = name(classes[i].item<int64_t>());
    const double weight = others.defined() ? weights[i].item<double>() : 0;
    texts.push_back(weight == 0
                        ? own
                        : own + " " + number_text(1 - weight, 2) + ", " +
                              name(others[i].item<int64_t>()) + " " + number_text(weight, 2));
  }
  return texts;
}

}  // namespace composer
