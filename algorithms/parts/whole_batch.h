// Helpers of methods that change a whole batch: boxes, partners, and mixed labels.
#pragma once

#include <ATen/ATen.h>

#include <string_view>

#include "base/loading/image_size.h"
#include "base/random.h"
#include "nn/network/batch.h"

namespace composer {

struct State;

/// Height and width of images [N, C, H, W].
ImageSize size_of(const at::Tensor& images);

/// The pixels of images [N, C, H, W] in the box, as a view.
at::Tensor part_of(const at::Tensor& images, const Box& box);

/// A box of 2 * (size / 2) pixels around a random centre in the image, clipped to the image. Pixels
/// at the edges are covered less often; with uniform_sampling the centre may lie outside, and all
/// pixels are covered equally often.
Box random_box(ImageSize image, ImageSize size, bool uniform_sampling, Random& random);

/// A box of `size`, at most the image's size, at a random position within the image.
Box box_within(ImageSize image, ImageSize size, Random& random);

/// A random permutation of 0..n-1, int64 [n] on the device.
at::Tensor random_partners(int64_t n, Random& random, at::Device device);

/// A random permutation of the images of state.batch, int64 [n] on their device. The draw depends
/// on `method`, the batch, and the rank's first sample.
at::Tensor partners_within(std::string_view method, const State& state);

/// images.index_select(dim, index) that keeps channels-last strides and copies whole rows.
at::Tensor pick(const at::Tensor& images, int64_t dim, const at::Tensor& index);

/// `target` with the partner's class as second class, of weight `weight` (float32 [N] in [0, 1]);
/// values are mixed by the same weight. Throws UserError that names `method` if the targets have
/// two classes already.
Target mix_labels(const Target& target, const at::Tensor& partners, const at::Tensor& weight,
                  std::string_view method);

}  // namespace composer
