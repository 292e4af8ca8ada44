#include "composer/run/feed.h"

#include <ATen/record_function.h>

#include "base/clock.h"
#include "nn/network/graph.h"
#include "nn/network/layers.h"
#include "nn/network/normalize.h"
#include "nn/network/surgery.h"

namespace composer {
namespace {

std::vector<at::Tensor*> parts_of(RawBatch& batch) {
  auto parts = batch.target.tensors();
  parts.insert(parts.begin(), &batch.images);
  return parts;
}

at::ScalarType autocast_type(Precision precision) {
  switch (precision) {
    case Precision::amp_fp16:
      return at::kHalf;
    case Precision::amp_bf16:
      return at::kBFloat16;
    case Precision::fp32:
    case Precision::tf32:
      break;
  }
  return at::kFloat;
}

/// Whether the layer of that path is exactly a Conv2d, not a derived class.
bool is_plain_convolution(Model& model, const std::string& path) {
  return std::ranges::any_of(placed_layers(model), [&](const auto& placed) {
    const auto& layer = *placed.layer;
    return placed.path == path && typeid(layer) == typeid(Conv2d);
  });
}

/// Whether only convolutions read the network's input; false if not known.
bool begins_with_convolutions(Model& model, const at::Tensor& image) {
  try {
    const auto graph = record(model, image);
    const auto readers = graph.readers(graph.input);
    return !readers.empty() && graph.output != graph.input &&
           std::ranges::all_of(readers, [&](size_t reader) {
             return is_plain_convolution(model, graph.operations[reader].layer);
           });
  } catch (const std::exception&) {
    return false;  // the network cannot be recorded; other errors appear in the first step
  }
}

}  // namespace

std::optional<RawBatch> next_batch(Loader& loader) {
  RECORD_USER_SCOPE("dataloader");
  return loader.next();
}

std::optional<RawBatch> Feed::fetch() {
  const double begin = steady_seconds();
  auto batch = next_batch(loader_);
  waited_ += steady_seconds() - begin;
  if (batch && batch->target.values.defined() && batch->target.values.is_cpu())
    objective_.check(batch->target);
  return batch;
}

std::optional<RawBatch> Feed::next() {
  if (!ahead_) {
    const auto batch = fetch();
    return batch ? std::optional(batch->to(device_)) : std::nullopt;
  }
  auto ahead = *std::exchange(ahead_, std::nullopt);
  if (ahead.error) std::rethrow_exception(ahead.error);
  if (!ahead.batch) return std::nullopt;
  const auto parts = parts_of(*ahead.batch);
  for (size_t i = 0; i < parts.size(); ++i)
    if (ahead.uploads[i]) *parts[i] = ahead.uploads[i]->take();
  return std::move(ahead.batch);
}

void Feed::fetch_ahead() {
  if (device_.is_cpu() || ahead_) return;
  Ahead ahead;
  try {
    ahead.batch = fetch();
    if (ahead.batch)
      for (auto* part : parts_of(*ahead.batch)) {
        auto& upload = ahead.uploads.emplace_back();
        if (part->defined()) upload.emplace(device_, std::exchange(*part, {}));
      }
  } catch (...) {
    ahead.error = std::current_exception();
  }
  ahead_ = std::move(ahead);
}

at::ScalarType input_type(const Engine& engine, const State& state, ImageSize size,
                          int64_t channels, Event first, Event last) {
  const auto rounded = autocast_type(state.precision);
  const auto sees_images = [&](const auto& algorithm) {
    for (auto i = static_cast<size_t>(first); i <= static_cast<size_t>(last); ++i)
      if (listens(algorithm, static_cast<Event>(i))) return true;
    return false;
  };
  if (state.device.is_cpu() || rounded == at::kFloat ||
      std::ranges::any_of(engine.algorithms(), sees_images))
    return at::kFloat;
  const auto image = at::zeros({1, channels, size.height, size.width});
  return begins_with_convolutions(*state.model, image) ? rounded : at::kFloat;
}

Batch normalized(const RawBatch& batch, const Normalization& normalization, const State& state,
                 at::ScalarType type) {
  RECORD_USER_SCOPE("normalize");
  return {normalize(batch.images, normalization, state.memory_format, type), batch.target};
}

}  // namespace composer
