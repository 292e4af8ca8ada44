// Spatial parallelism: a forward pass in which each rank computes some rows of each image. The
// functions of namespace op, called on whole images or on rows alike, exchange the rows that they
// need with other ranks.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "nn/distributed/ranks.h"
#include "nn/network/layer.h"
#include "nn/network/operations.h"

namespace composer {

/// Distributes the operations of its thread while it lives. The output of each function of
/// namespace op is this rank's part of the rows (own_rows()); an output without rows, such as an
/// image's pooled values, is the same on all ranks. It knows tensors by their TensorImpl.
class SpatialParallel {
 public:
  /// The part of the whole tensor that a rank has.
  enum class Held {
    whole,  ///< the whole tensor, on every rank
    image,  ///< the whole image, on every rank; the next convolution or pooling divides it
    rows,
  };
  struct Known {
    int64_t height = 0;  ///< height of whole images
    Held held = Held::whole;
  };
  /// The state at the beginning of a pass.
  struct Start {
    Ranks ranks;  ///< ranks of the image
    Known known;  ///< the pass's input
  };

  /// The pass of this thread, or null.
  static SpatialParallel* current() { return current_; }

  SpatialParallel(Start start, const at::Tensor& input);
  ~SpatialParallel() { current_ = before_; }
  SpatialParallel(const SpatialParallel&) = delete;
  SpatialParallel& operator=(const SpatialParallel&) = delete;

  /// The operation's output. compute: the operation on this rank's tensors. LayerError for an
  /// operation that cannot be divided by rows, and for a tensor of unknown distribution.
  at::Tensor computed(OperationKind kind, const OperationOptions& options,
                      at::ArrayRef<const at::Tensor*> inputs,
                      c10::function_ref<at::Tensor()> compute);

  /// Nothing for a tensor that was not made by namespace op in this pass.
  std::optional<Known> find(const at::Tensor& tensor) const;
  at::Tensor keep(at::Tensor tensor, const Known& known);
  const Ranks& ranks() const { return ranks_; }

 private:
  using WeakTensor = c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;

  Known known(OperationKind kind, const at::Tensor& tensor) const;
  /// What is known of the result of an element-wise operation on a and b.
  Known known_of_both(OperationKind kind, const at::Tensor& a, const at::Tensor& b) const;
  at::Tensor down_the_image(OperationKind kind, const OperationOptions& options,
                            at::ArrayRef<const at::Tensor*> inputs, const Known& known);

  inline static constinit thread_local SpatialParallel* current_ = nullptr;

  SpatialParallel* before_;
  Ranks ranks_;
  /// The weak pointers keep the addresses of freed TensorImpls from being reused.
  std::unordered_map<const at::TensorImpl*, std::pair<WeakTensor, Known>> known_;
};

/// network.forward(images) for whole images, which all of `ranks` have; each rank computes its
/// rows. The output is the same on all ranks. Side effects of the network, such as running
/// statistics, are those of whole images.
at::Tensor forward_by_rows(Layer& network, const at::Tensor& images, const Ranks& ranks);

/// UserError naming `network` and its layers that cannot be divided by rows (Layer::by_rows()).
void check_by_rows(Block& network);

}  // namespace composer
