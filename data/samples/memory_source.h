// Decoded samples in memory.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/samples/source.h"

namespace composer {

/// Samples of one size.
class MemorySource final : public Source {
 public:
  /// pixels: [labels.size(), height, width, channels]. samples: more samples than labels repeat the
  /// images; nullopt: one sample per label. name: the file's name for error messages.
  MemorySource(std::string name, ImageSize size, int64_t channels, std::vector<uint8_t> pixels,
               std::vector<int32_t> labels, std::optional<int64_t> samples = {})
      : name_(std::move(name)),
        size_(size),
        channels_(channels),
        pixels_(std::move(pixels)),
        labels_(std::move(labels)),
        samples_(samples.value_or(std::ssize(labels_))) {
    if (pixels_.size() != labels_.size() * static_cast<size_t>(bytes()))
      throw std::logic_error("MemorySource: pixels and labels do not match");
  }

  int64_t size() const override { return samples_; }
  int64_t channels() const override { return channels_; }
  int64_t label(int64_t index) const override { return labels_[unique(index)]; }
  std::string name(int64_t index) const override {
    return name_ + ", sample " + std::to_string(index);
  }
  StoredImage open(int64_t index, ReadScratch&) const override {
    const auto bytes_each = static_cast<size_t>(bytes());
    return {.bytes = {pixels_.data() + unique(index) * bytes_each, bytes_each},
            .size = size_,
            .channels = channels_};
  }

 private:
  int64_t bytes() const { return size_.height * size_.width * channels_; }
  size_t unique(int64_t index) const { return static_cast<size_t>(index) % labels_.size(); }

  std::string name_;
  ImageSize size_;
  int64_t channels_;
  std::vector<uint8_t> pixels_;
  std::vector<int32_t> labels_;
  int64_t samples_;
};

/// A few samples of another source, decoded once: to measure what decoding costs.
class DecodedSource final : public Source {
 public:
  /// Decodes up to `most` whole samples, spread over the source; fewer where they would take more
  /// than 1 GiB. Each stands for its neighbours: size() is that of the source. Samples that cannot
  /// be read are left out. Throws RunError if none can be read.
  DecodedSource(std::shared_ptr<Source> source, int64_t most);

  /// The number of decoded samples.
  int64_t decoded() const { return static_cast<int64_t>(samples_.size()); }

  int64_t size() const override { return source_->size(); }
  int64_t channels() const override { return source_->channels(); }
  int64_t label(int64_t index) const override { return sample(index).label; }
  int64_t num_values() const override { return source_->num_values(); }
  std::vector<std::string> value_names() const override { return source_->value_names(); }
  void read_values(int64_t index, std::span<float> values) const override {
    source_->read_values(sample(index).index, values);
  }
  std::string name(int64_t index) const override { return source_->name(index); }
  StoredImage open(int64_t index, ReadScratch& scratch) const override;
  uint64_t paged_bytes() const override { return source_->paged_bytes(); }
  int64_t page(int64_t index) const override { return source_->page(index); }

 private:
  struct Sample {
    Image image;
    int64_t label;
    int64_t index;  ///< index in the source
  };
  const Sample& sample(int64_t index) const;

  std::shared_ptr<Source> source_;
  std::vector<Sample> samples_;
};

}  // namespace composer
