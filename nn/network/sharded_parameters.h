// Weights, gradients and optimizer state sharded over the ranks, by whole parameters (Zhao et al.
// 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", arXiv:2304.11277;
// Rajbhandari et al. 2020, "ZeRO", stage 3).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nn/distributed/ranks.h"
#include "nn/network/layer.h"
#include "nn/network/model.h"
#include "nn/network/surgery.h"

namespace composer {

struct ShardingOptions {
  /// Type in which float32 weights are gathered: float, or bfloat16. With bfloat16, forward and
  /// backward passes on every rank use the rounded values.
  at::ScalarType gathered = at::kFloat;
  at::ScalarType sent = at::kFloat;  ///< type of sent gradients, as GradientSyncOptions::dtype
  bool find_unused = false;          ///< some parameters may take no part in some backward passes
};

/// The units whose weights are gathered together, in the order of the network: residual blocks, and
/// layers of other slots. Sequentials, and blocks that hold residual blocks, are entered; layers
/// without parameters are left out. A layer in several slots appears once for each.
std::vector<PlacedLayer> weight_units(Block& network);

/// Each parameter belongs to one rank, its owner, which alone keeps its memory. A unit gathers its
/// weights before it runs, while the unit before it computes. They are freed after the forward
/// pass, and gathered again for the unit's backward pass; then each gradient is summed into its
/// owner's.
///
/// Units: weight_units(). Parameters of no unit, or of several units, stay in memory on all ranks:
/// their owners send them, unrounded, at the beginning of the next pass after an update. Parameters
/// without an owner are not touched. All ranks run the same units in the same order. Reading a
/// weight that is not in memory throws c10::Error; sizes and types stay.
///
/// Units within a larger layer that is recomputed in the backward pass (Slot::recompute) are
/// gathered once more for that. Their gradients are complete, and summed, only after the larger
/// layer's backward pass.
class ShardedParameters {
 public:
  /// parameters: pairs of a parameter and its owner, with equal values on all ranks. ranks: more
  /// than one.
  ShardedParameters(std::shared_ptr<Model> model,
                    const std::vector<std::pair<at::Tensor, int64_t>>& parameters, Ranks ranks,
                    const ShardingOptions& options);
  ~ShardedParameters();
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  /// Called before and after each forward pass of the model.
  void begin_pass();
  void end_pass();

  /// Drops what a failed update left behind.
  void begin_update();
  void before_backward();
  /// last: true for an update's last microbatch. Afterwards the parameters of this rank have the
  /// sum over ranks and microbatches as gradients, and the other parameters have none. RunError if
  /// a parameter took no part in the backward pass, unless find_unused is true.
  void after_backward(bool last);

  /// The owner of a parameter; empty for one that all ranks keep and none updates.
  std::optional<int64_t> owner(const at::Tensor& parameter) const;
  /// Whether this rank's value of the parameter is the valid one.
  bool is_own(const at::Tensor& parameter) const {
    return owner(parameter).value_or(ranks_.rank()) == ranks_.rank();
  }

  /// Call it after every rank wrote its own weights outside of an update: the next pass sends them
  /// to the ranks that need them.
  void written() { written_ = true; }

  /// Puts all weights into memory on all ranks, for work after training: from then on no pass waits
  /// for another rank, except one after written(). Where a rank lacks the memory, weights stay
  /// sharded, with a warning.
  void make_whole();

  /// Bytes of gradients that this rank has sent since the beginning.
  int64_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Shard;
  struct Unit;
  class Collectives;

  void make_units();
  void take_over(const std::vector<std::pair<at::Tensor, int64_t>>& parameters);
  void begin_gather(Unit& unit);
  void end_gather(Unit& unit);
  void gather(Unit& unit);
  void free(Unit& unit);
  void send_residents();
  bool has_room();
  void enter(Unit& unit);
  at::Tensor leave(Unit& unit, const at::Tensor& input, at::Tensor output);
  /// The backward pass enters the unit.
  void open(Unit& unit);
  /// The backward pass has left the unit.
  void close(Unit& unit);
  void sum_gradients(Unit& unit);
  void sum_waiting();
  void begin_sum(Shard& shard);
  void end_sums();
  void check_arrived() const;
  void hand_over(Shard& shard);
  template <class F>
  void each_shard(const F& work);

  std::shared_ptr<Model> model_;  ///< its slots refer to units_
  Ranks ranks_;
  ShardingOptions options_;
  std::unique_ptr<Collectives> collectives_;
  std::map<const at::TensorImpl*, int64_t> owners_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<Slot*> slots_;         ///< slots whose layers are units
  std::unique_ptr<Unit> residents_;  ///< parameters that stay in memory on all ranks
  std::vector<Shard*> summing_;      ///< their gradients are being summed
  std::vector<Unit*> waiting_;       ///< recomputed units whose gradients are not complete yet
  Unit* last_entered_ = nullptr;     ///< the unit entered last in this forward pass
  Unit* open_ = nullptr;             ///< the unit entered last in this backward pass
  int64_t passes_ = 0;
  int64_t sent_bytes_ = 0;
  bool in_backward_ = false;
  bool written_ = true;    ///< weights changed since all ranks' copies were last sent
  bool recorded_ = false;  ///< whether autograd recorded the last pass
  bool whole_ = false;
};

}  // namespace composer
