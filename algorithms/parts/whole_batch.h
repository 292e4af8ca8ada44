// What the methods share that change a whole batch at once: boxes, partners, and labels in two
// parts.
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

/// The box of images [N, C, H, W], a view.
at::Tensor part_of(const at::Tensor& images, const Box& box);

/// A box of twice half of `size` (rounded down) around a random pixel of `image`, clipped to the
/// image. Pixels at the edges are in it less often; with `uniform_sampling`, where the centre may
/// lie outside, all are equally often.
Box random_box(ImageSize image, ImageSize size, bool uniform_sampling, Random& random);

/// A box of `size`, at most the image's, anywhere within it.
Box box_within(ImageSize image, ImageSize size, Random& random);

/// A random permutation of 0..n-1, int64 [n] on the device.
at::Tensor random_partners(int64_t n, Random& random, at::Device device);

/// Partners for the images of state.batch among themselves, by the batch and where in that of all
/// ranks they begin: int64 [n] on their device. method: names the draws.
at::Tensor partners_within(std::string_view method, const State& state);

/// images.index_select(dim, index) that keeps channels-last strides, at the speed of whole rows.
at::Tensor pick(const at::Tensor& images, int64_t dim, const at::Tensor& index);

/// `target` with its partner's class as the other one, of weight `weight` (float32 [N] in [0, 1]);
/// values are mixed in those shares.
/// Throws UserError naming `method` where the targets have two classes already.
Target mix_labels(const Target& target, const at::Tensor& partners, const at::Tensor& weight,
                  std::string_view method);

}  // namespace composer
