#include "composer/run/image_fit.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "base/time.h"
#include "composer/run/build.h"
#include "nn/network/layer.h"
#include "nn/optimization/scheduler.h"

namespace composer {
namespace {

std::string pixels(ImageSize size) {
  return std::to_string(size.height) + " x " + std::to_string(size.width) + " pixels";
}

/// Restores what a forward pass changes: running statistics, the mode and the random generator.
class Unchanged {
 public:
  explicit Unchanged(Model& model)
      : model_(model),
        training_(model.is_training()),
        generator_(at::detail::getDefaultCPUGenerator()),
        random_(generator_.get_state()) {
    for (const auto& buffer : model.buffers()) buffers_.push_back(buffer.clone());
  }
  Unchanged(const Unchanged&) = delete;
  Unchanged& operator=(const Unchanged&) = delete;
  ~Unchanged() {
    const auto buffers = model_.buffers();
    for (size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(buffers_[i]);
    generator_.set_state(random_);
    model_.train(training_);
  }

 private:
  const at::NoGradGuard no_grad_;
  Model& model_;
  bool training_;
  at::Generator generator_;
  at::Tensor random_;
  std::vector<at::Tensor> buffers_;
};

/// Why the network cannot compute on one image of the loader; empty if it can, or if it fails for
/// another reason. Sides are limited to four strides, which leave every layer several pixels:
/// larger images may be too large for one process.
std::string misfit(Model& model, const Loader& loader, bool training) {
  const Unchanged unchanged(model);
  const auto channels = std::ssize(loader.normalization().mean);
  const auto side = [&](int64_t whole) {
    return model.stride() > 1 ? std::min(whole, 4 * model.stride()) : whole;
  };
  const int64_t height = side(loader.image_size().height), width = side(loader.image_size().width);
  model.train(training);
  try {
    model.forward(at::zeros({1, channels, height, width}));
  } catch (const LayerError& error) {
    return error.what();
  } catch (const c10::Error&) {
  }
  return {};
}

/// Whether Batch::split() makes a part with one sample.
bool has_single_sample(int64_t samples, int64_t parts) {
  return samples / std::min(parts, samples) == 1;
}

}  // namespace

std::optional<int64_t> image_channels(const Model& model) {
  for (const auto& parameter : model.parameters())
    if (parameter.dim() == 4) return parameter.size(1);
  return std::nullopt;
}

void check_image_size(Model& model, const Loader& loader) {
  const auto [height, width] = loader.image_size();
  if (model.stride() > 1 && std::min(height, width) >= 2 * model.stride()) return;
  if (const auto why = misfit(model, loader, /*training=*/false); !why.empty())
    throw UserError("images of " + pixels({height, width}) +
                    " are too small for the network: " + why);
}

std::string image_size_warning(const Model& model, ImageSize size) {
  if (std::min(size.height, size.width) >= model.stride()) return {};
  const ImageSize least{model.stride(), model.stride()};
  return "images of " + pixels(size) + " are smaller than the network's stride of " +
         std::to_string(model.stride()) +
         ": its last layers see nothing but padding around one place; give it images of at least " +
         pixels(least) + ", or take a network for small images";
}

void check_single_samples(Model& model, const Loader& loader, const TrainerOptions& options) {
  if (!options.freeze.empty()) return;  // batch norms may be frozen; those that are not refuse it
  const int64_t batches = loader.batches_per_epoch(), samples = loader.samples_per_epoch();
  const auto run_length = planned_run_length(batches, samples, options);
  const int64_t last = samples - (batches - 1) * options.train_batch_size;
  const bool in_all = has_single_sample(options.train_batch_size, options.grad_accum) &&
                      (batches > 1 || last >= options.train_batch_size);
  const bool in_last = !run_length.finished(run_length.at_batch(batches - 1)) && last > 0 &&
                       has_single_sample(last, options.grad_accum);
  if (!in_all && !in_last) return;
  if (const auto why = misfit(model, loader, /*training=*/true); !why.empty())
    throw UserError(std::string(options.grad_accum > 1 ? "a microbatch of " : "") +
                    (in_all ? "a batch" : "the last batch of an epoch") +
                    " has one sample only: " + why);
}

}  // namespace composer
