// A few samples of another source, decoded once: to measure what decoding costs.
#pragma once

#include <memory>
#include <vector>

#include "data/samples/source.h"

namespace composer {

class DecodedSource final : public Source {
 public:
  /// Decodes up to `most` whole samples, spread over the source; fewer where they would take more
  /// than 1 GiB. Each stands for its neighbours: size() is that of the source. Samples that cannot
  /// be read are left out. Throws RunError where none can be read.
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
