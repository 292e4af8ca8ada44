// For the tests of the augmentations that are drawn for each image: Python as the reference,
// images, and what `where` must not change.
#pragma once

#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <span>
#include <string>

#include "algorithms/augmentation/augment_batch.h"
#include "base/params/params.h"
#include "base/random.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/gpu.h"
#include "tests/python.h"
#include "tests/temporary_folder.h"

namespace composer::test {

/// augmentation_reference.py WHAT FOLDER; false, with a warning, where there is no Python.
inline bool run_reference(const std::string& what, const TemporaryFolder& folder) {
  if (!has_python()) {
    WARN("skipped: no " << python());
    return false;
  }
  output_of("tests/algorithms/augmentation_reference.py", what + " " + folder.path().string());
  return true;
}

/// uint8 of any shape, all values equally likely.
inline at::Tensor noise(at::IntArrayRef sizes) {
  auto images = at::empty(sizes, at::kByte);
  Random random(5, "noise", 0, 0);
  for (auto& value : std::span(images.data_ptr<uint8_t>(), static_cast<size_t>(images.numel())))
    value = static_cast<uint8_t>(random.below(256));
  return images;
}

/// image: uint8 [H, W, C], contiguous.
inline MutableImage mutable_image(const at::Tensor& image) {
  return {image.data_ptr<uint8_t>(), image.size(0), image.size(1), image.size(2)};
}

/// draw(random, size): what the algorithm A does to an image. purpose: of its draws.
template <class A, class Draw>
void check_places(typename A::Params params, const std::string& purpose, Draw draw) {
  Fixture f;
  const auto images = noise({6, 20, 24, 3});
  const auto expected = [&](uint64_t epoch, uint64_t first) {
    auto changed = images.clone();
    for (int64_t i = 0; i < 6; ++i) {
      Random random(17, purpose, epoch, first + static_cast<uint64_t>(i));
      apply_draw(draw(random, ImageSize{20, 24}), mutable_image(changed[i]));
    }
    return changed;
  };

  params.where = "loader";
  A on_loader(params);
  CHECK_FALSE(on_loader.listens(Event::augment));
  auto changed = images.clone();
  const auto transform = on_loader.sample_transform(f.state);
  for (int64_t i = 5; i >= 0; --i)
    transform(mutable_image(changed[i]), {17, 3, 40 + static_cast<uint64_t>(i)});
  CHECK(at::equal(changed, expected(3, 40)));

  params.where = "device";
  A on_device(params);
  CHECK_FALSE(on_device.sample_transform(f.state));
  f.state.time.batch = 7;
  const auto given = images.clone();
  CHECK(on_device.listens(Event::augment));
  const auto augmented = [&](A& algorithm, const at::Tensor& bytes) {
    f.state.raw_batch.images = bytes;
    algorithm.augment(f.state);
    return f.state.raw_batch.images;
  };
  const auto seventh = augmented(on_device, given);
  CHECK(at::equal(given, images));
  CHECK(at::equal(seventh, expected(7, 0)));
  CHECK_FALSE(at::equal(seventh, images));
  f.state.time.batch = 8;
  CHECK(at::equal(augmented(on_device, images), expected(8, 0)));

  CHECK(on_device.state_dict().values.empty());
  CHECK(on_device.state_dict().tensors.empty());
  f.state.time.batch = 7;
  const int threads = at::get_num_threads();
  for (const int other : {1, 3}) {
    at::set_num_threads(other);
    A again(params);
    CHECK(at::equal(augmented(again, images), seventh));
  }
  at::set_num_threads(threads);

  if (!test::has_gpu()) return;
  const at::Tensor on_cuda = augmented(on_device, images.cuda()).cpu();
  const at::Tensor off = (on_cuda.to(at::kInt) - seventh.to(at::kInt)).abs();
  CHECK(off.gt(1).sum().item().toLong() < 0.02 * static_cast<double>(off.numel()));
}

/// How many problems a recipe has that gives A's hyperparameter `key` this value.
template <class A>
size_t problems(const std::string& key, const std::string& value) {
  typename A::Params params;
  auto given = Value::map();
  given.set(key, Value::scalar(value));
  Problems found;
  read_fields(given, collect(params), "algorithm", found);
  return found.size();
}

}  // namespace composer::test
