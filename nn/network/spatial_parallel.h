// A forward pass of which each rank computes some rows: the functions of namespace op, called on
// tensors of whole images or of rows alike, exchange what they need of other ranks.
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

/// Divides what its thread computes while it lives. Each of our operations has as its output this
/// rank's part of the rows (own_rows()), or where that has no rows, as the pooled values of a whole
/// image, the same on all ranks. Tensors are known by their TensorImpl.
class SpatialParallel {
 public:
  /// What a tensor is of the one that a rank alone would have.
  enum class Held {
    whole,  ///< the same on every rank
    image,  ///< likewise, but the next operation down the image is to divide it
    rows,
  };
  struct Known {
    int64_t height = 0;  ///< of all rows
    Held held = Held::whole;
  };
  /// Where a pass begins.
  struct Start {
    Ranks ranks;  ///< of the image
    Known known;  ///< of its input
  };

  /// That of the thread, or null.
  static SpatialParallel* current() { return current_; }

  SpatialParallel(Start start, const at::Tensor& input);
  ~SpatialParallel() { current_ = before_; }
  SpatialParallel(const SpatialParallel&) = delete;
  SpatialParallel& operator=(const SpatialParallel&) = delete;

  /// The operation's output. compute: what it is of whole tensors. LayerError for one that cannot
  /// be divided, and for a tensor that comes from elsewhere.
  at::Tensor computed(OperationKind kind, const OperationOptions& options,
                      at::ArrayRef<const at::Tensor*> inputs,
                      c10::function_ref<at::Tensor()> compute);

  /// Nothing where the tensor comes from elsewhere.
  std::optional<Known> find(const at::Tensor& tensor) const;
  at::Tensor keep(at::Tensor tensor, const Known& known);
  const Ranks& ranks() const { return ranks_; }

 private:
  using WeakTensor = c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;

  Known known(OperationKind kind, const at::Tensor& tensor) const;
  /// Of what is computed value by value.
  Known known_of_both(OperationKind kind, const at::Tensor& a, const at::Tensor& b) const;
  at::Tensor down_the_image(OperationKind kind, const OperationOptions& options,
                            at::ArrayRef<const at::Tensor*> inputs, const Known& known);

  inline static constinit thread_local SpatialParallel* current_ = nullptr;

  SpatialParallel* before_;
  Ranks ranks_;
  /// The weak pointers keep the places of tensors that are gone from being taken by others.
  std::unordered_map<const at::TensorImpl*, std::pair<WeakTensor, Known>> known_;
};

/// network.forward(images) of images that all of `ranks` have; each computes its rows. The output
/// is the same on all. What the network does by the way, such as running statistics, is as of whole
/// images.
at::Tensor forward_by_rows(Layer& network, const at::Tensor& images, const Ranks& ranks);

/// UserError naming the layers of `network`, or itself, that cannot be divided by rows
/// (Layer::by_rows()).
void check_by_rows(Block& network);

}  // namespace composer
