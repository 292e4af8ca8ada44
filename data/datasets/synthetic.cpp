#include "data/datasets/synthetic.h"

#include "base/random.h"
#include "data/samples/memory_source.h"

namespace composer {

std::shared_ptr<Source> make_synthetic(const SyntheticSpec& spec) {
  const int64_t unique = std::min(spec.unique, spec.samples);
  const int64_t bytes = spec.size.height * spec.size.width * spec.channels;
  std::vector<uint8_t> pixels(static_cast<size_t>(unique * bytes));
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < unique; ++i) {
    Random random(0, "data.synthetic", 0, static_cast<uint64_t>(i));
    labels.push_back(static_cast<int32_t>(random.below(spec.num_classes)));
    uint8_t* out = pixels.data() + i * bytes;
    for (int64_t b = 0; b < bytes; b += 4) {
      const uint32_t bits = random.bits();
      for (int64_t k = 0; k < std::min<int64_t>(4, bytes - b); ++k)
        out[b + k] = static_cast<uint8_t>(bits >> (8 * k));
    }
  }
  return std::make_shared<MemorySource>("synthetic images", spec.size, spec.channels,
                                        std::move(pixels), std::move(labels), spec.samples);
}

Normalization SyntheticDataset::normalization() const {
  const auto channels = static_cast<size_t>(params_.channels);
  return {std::vector<double>(channels, 127.5), std::vector<double>(channels, 73.9)};
}

std::unique_ptr<Loader> SyntheticDataset::open(const LoaderOptions& options) const {
  const auto source = make_synthetic({.size = image_size(),
                                      .channels = params_.channels,
                                      .num_classes = params_.num_classes,
                                      .samples = params_.samples});
  return open_loader(source, {.size = image_size()}, {}, normalization(), params_, options);
}

std::optional<Preparation> SyntheticDataset::preparation(const LoaderOptions&) const {
  return fitted(params_.channels, image_size(), normalization());
}

}  // namespace composer
