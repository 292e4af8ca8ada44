// The same batches for two runs.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "composer/loop/loader.h"
#include "nn/network/batch.h"

namespace composer {

/// Hands out another loader's batches and keeps them.
class KeepingLoader : public Loader {
 public:
  explicit KeepingLoader(std::shared_ptr<Loader> loader) : loader_(std::move(loader)) {}

  int64_t batches_per_epoch() const override { return loader_->batches_per_epoch(); }
  int64_t samples_per_epoch() const override { return loader_->samples_per_epoch(); }
  ImageSize image_size() const override { return loader_->image_size(); }
  const Normalization& normalization() const override { return loader_->normalization(); }
  void start(int64_t epoch, int64_t batch, SizePlan plan) override {
    loader_->start(epoch, batch, std::move(plan));
  }
  void add_transform(SampleTransform transform) override {
    loader_->add_transform(std::move(transform));
  }
  std::optional<RawBatch> next() override {
    auto batch = loader_->next();
    kept_.push_back(batch);
    if (batch) kept_.back()->images = batch->images.clone();  // methods may write to the batch
    return batch;
  }

  /// In order, with the ends of epochs.
  const std::vector<std::optional<RawBatch>>& kept() const { return kept_; }

 private:
  std::shared_ptr<Loader> loader_;
  std::vector<std::optional<RawBatch>> kept_;
};

/// Hands out what a KeepingLoader kept, which has all transforms applied; then nothing.
class ReplayLoader : public Loader {
 public:
  explicit ReplayLoader(std::shared_ptr<const KeepingLoader> kept) : kept_(std::move(kept)) {}

  int64_t batches_per_epoch() const override { return kept_->batches_per_epoch(); }
  int64_t samples_per_epoch() const override { return kept_->samples_per_epoch(); }
  ImageSize image_size() const override { return kept_->image_size(); }
  const Normalization& normalization() const override { return kept_->normalization(); }
  void start(int64_t, int64_t, SizePlan) override { next_ = 0; }
  void add_transform(SampleTransform) override {}
  std::optional<RawBatch> next() override {
    return next_ < kept_->kept().size() ? kept_->kept()[next_++] : std::nullopt;
  }

 private:
  std::shared_ptr<const KeepingLoader> kept_;
  size_t next_ = 0;
};

}  // namespace composer
