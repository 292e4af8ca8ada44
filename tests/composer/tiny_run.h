// A run small enough for tests: noise images whose brightness tells the class, and a network of two
// layers.
#pragma once

#include "base/random.h"
#include "composer/run/trainer.h"
#include "nn/network/layers.h"
#include "nn/optimization/optimizers.h"
#include "tests/temporary_folder.h"

namespace composer {

class TinyLoader : public Loader {
 public:
  TinyLoader(int64_t samples, int64_t batch_size) : samples_(samples), batch_size_(batch_size) {}

  int64_t batches_per_epoch() const override { return samples_ / batch_size_; }
  int64_t samples_per_epoch() const override { return batches_per_epoch() * batch_size_; }
  ImageSize image_size() const override { return {8, 8}; }
  const Normalization& normalization() const override { return normalization_; }
  void start(int64_t epoch, int64_t batch, SizePlan) override { epoch_ = epoch, batch_ = batch; }
  void add_transform(SampleTransform) override {}

  std::optional<RawBatch> next() override {
    if (batch_ == batches_per_epoch()) {
      ++epoch_, batch_ = 0;
      return std::nullopt;
    }
    RawBatch batch;
    batch.images = at::empty({batch_size_, 8, 8, 3}, at::kByte);
    batch.target.classes = at::empty({batch_size_}, at::kLong);
    for (int64_t i = 0; i < batch_size_; ++i) {
      const int64_t sample = batch_ * batch_size_ + i;
      Random random(1, "tiny", static_cast<uint64_t>(epoch_), static_cast<uint64_t>(sample));
      const int64_t label = sample % 2;
      batch.target.classes.mutable_data_ptr<int64_t>()[i] = label;
      uint8_t* pixels = batch.images.mutable_data_ptr<uint8_t>() + i * 192;
      for (int p = 0; p < 192; ++p)
        pixels[p] = static_cast<uint8_t>(random.below(128) + 100 * label);
    }
    ++batch_;
    return batch;
  }

 private:
  int64_t samples_, batch_size_, epoch_ = 0, batch_ = 0;
  Normalization normalization_{{128, 128, 128}, {64, 64, 64}};
};

class TinyModel : public Model {
 public:
  TinyModel()
      : conv(add<Conv2d>("conv",
                         Conv2dOptions{.in_channels = 3, .out_channels = 4, .kernel = {3, 3}})),
        pool(add<AdaptiveAvgPool2d>("pool")),
        fc(add<Linear>("fc", 4, 2)) {}
  at::Tensor forward(const at::Tensor& input) override { return fc(pool(op::relu(conv(input)))); }
  int64_t num_classes() const override { return 2; }

 private:
  Slot &conv, &pool, &fc;
};

/// 4 batches of 8 an epoch, 2 batches of evaluation; nothing on the disk unless a run_dir is set.
inline TrainerParts tiny_parts() {
  at::manual_seed(3);
  TrainerParts parts;
  parts.options.train_batch_size = 8;
  parts.options.max_duration = {2, TimeUnit::epoch};
  parts.options.device = "cpu";
  parts.options.run_dir = "";
  parts.options.progress_bar = false;
  parts.model = std::make_shared<TinyModel>();
  parts.train_loader = std::make_shared<TinyLoader>(32, 8);
  parts.eval_loader = std::make_shared<TinyLoader>(16, 8);
  SgdParams sgd;
  sgd.lr = 0.1;
  sgd.momentum = 0.9;
  parts.optimizer = std::make_shared<Sgd>(sgd);
  return parts;
}

/// All parameters and buffers in one vector.
inline at::Tensor weights_of(const Trainer& trainer) {
  std::vector<at::Tensor> all;
  for (const auto& parameter : trainer.state().model->parameters())
    all.push_back(parameter.detach().flatten());
  return at::cat(all).clone();
}

}  // namespace composer
