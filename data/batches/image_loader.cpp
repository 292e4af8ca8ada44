#include "data/batches/image_loader.h"

#include "data/batches/tensor_pool.h"
#include "nn/network/batch.h"
#include "nn/profiling/thread_ranges.h"

namespace composer {
namespace {

at::ScalarType scalar_type(ElementType type) {
  switch (type) {
    case ElementType::int64:
      return at::kLong;
    case ElementType::float32:
      return at::kFloat;
    case ElementType::bfloat16:
      return at::kBFloat16;
    case ElementType::float16:
      return at::kHalf;
    case ElementType::uint8:
      break;
  }
  return at::kByte;
}

/// Allocates arrays as tensors: the owner of an array is its tensor.
class TensorArrays final : public ArrayAllocator {
 public:
  TensorArrays(size_t kept, bool pinned) : pool_(kept, pinned) {}

  Array reused(const std::vector<int64_t>& shape, ElementType type) override {
    return array_of(pool_.reused(shape, scalar_type(type)), shape, type);
  }
  Array fresh(const std::vector<int64_t>& shape, ElementType type) override {
    return array_of(pool_.fresh(shape, scalar_type(type)), shape, type);
  }
  void clear() override { pool_.clear(); }

  static at::Tensor tensor_of(const Array& array) {
    return array.owner ? *static_cast<at::Tensor*>(array.owner.get()) : at::Tensor();
  }

 private:
  static Array array_of(at::Tensor tensor, const std::vector<int64_t>& shape, ElementType type) {
    void* const data = tensor.mutable_data_ptr();
    return {data, shape, type, std::make_shared<at::Tensor>(std::move(tensor))};
  }

  TensorPool pool_;
};

/// A BatchLoader's batches as tensors.
class ImageLoader final : public Loader {
 public:
  explicit ImageLoader(std::unique_ptr<BatchLoader> loader) : loader_(std::move(loader)) {}

  int64_t batches_per_epoch() const override { return loader_->batches_per_epoch(); }
  int64_t samples_per_epoch() const override { return loader_->samples_per_epoch(); }
  ImageSize image_size() const override { return loader_->image_size(); }
  const Normalization& normalization() const override { return loader_->normalization(); }
  std::string sample_name(int64_t index) const override { return loader_->sample_name(index); }
  std::string digest() const override { return loader_->digest(); }
  void start(int64_t epoch, int64_t batch, SizePlan plan) override {
    loader_->start(epoch, batch, std::move(plan));
  }
  void add_transform(SampleTransform transform) override {
    loader_->add_transform(std::move(transform));
  }
  std::optional<RawBatch> next() override {
    const auto arrays = loader_->next();
    if (!arrays) return std::nullopt;
    RawBatch batch;
    batch.images = TensorArrays::tensor_of(arrays->images);
    batch.target.classes = TensorArrays::tensor_of(arrays->classes);
    batch.target.values = TensorArrays::tensor_of(arrays->values);
    batch.indices = TensorArrays::tensor_of(arrays->indices);
    batch.share = arrays->share;
    return batch;
  }

 private:
  const std::unique_ptr<BatchLoader> loader_;
};

}  // namespace

std::unique_ptr<Loader> make_image_loader(std::shared_ptr<Source> source,
                                          ImageLoaderOptions options, const LoaderOptions& common) {
  record_work_ranges();
  const auto prefetched = static_cast<size_t>(std::max<int64_t>(common.prefetch_factor, 0));
  return std::make_unique<ImageLoader>(
      make_batch_loader(std::move(source), std::move(options), common,
                        std::make_unique<TensorArrays>(prefetched + 3, common.pin_memory)));
}

}  // namespace composer
