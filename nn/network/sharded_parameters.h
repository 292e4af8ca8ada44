// Weights, gradients and optimizer state divided among the ranks (Zhao et al. 2023, "PyTorch FSDP:
// Experiences on Scaling Fully Sharded Data Parallel", arXiv:2304.11277; Rajbhandari et al. 2020,
// "ZeRO", stage 3), by whole parameters.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nn/distributed/ranks.h"
#include "nn/network/layer_weights.h"
#include "nn/network/model.h"
#include "nn/network/surgery.h"

namespace composer {

struct ShardingOptions {
  /// That float32 weights are gathered in: float, or bfloat16, whose rounded values forward and
  /// backward passes then compute with on every rank.
  at::ScalarType gathered = at::kFloat;
  at::ScalarType sent = at::kFloat;  ///< of gradients, as GradientSyncOptions::dtype
  bool find_unused = false;          ///< some parameters may take no part in some backward passes
};

/// What gathers its weights together, in the order of the network: residual blocks, and what is in
/// other slots, Sequentials and blocks of residual blocks being entered; without layers that have
/// no parameters. A layer in several slots stands there as often.
std::vector<PlacedLayer> weight_units(Block& network);

/// Each parameter belongs to one rank, which alone keeps its memory. A unit of layers gathers its
/// weights before it runs, while the unit before it computes; they are freed afterwards, and
/// gathered again for its backward pass. Then each gradient is summed into its owner's.
///
/// Units: weight_units(). Parameters of no unit or of several are there always, as they are on
/// their owners: those values are sent, unrounded, at the beginning of the next pass after an
/// update. Parameters without an owner are left alone. All ranks run the same units in the same
/// order. What reads a weight that is not there gets a c10::Error; sizes and types stay.
///
/// Units of a larger layer that is computed again in the backward pass (Slot) are gathered once
/// more for that; their gradients come when all of the layer's are made, and are summed then.
class ShardedParameters {
 public:
  /// parameters: each with the rank it belongs to, the same on all ranks, with the same values.
  /// ranks: more than one.
  ShardedParameters(std::shared_ptr<Model> model,
                    const std::vector<std::pair<at::Tensor, int64_t>>& parameters, Ranks ranks,
                    const ShardingOptions& options);
  ~ShardedParameters();
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  /// Around each forward pass of the model.
  void begin_pass();
  void end_pass();

  /// Forgets what an update that failed left behind.
  void begin_update();
  void before_backward();
  /// last: of an update's microbatches. Then parameters of this rank have the sum over ranks and
  /// microbatches as their gradients, the others none. RunError where a parameter took no part in
  /// the backward pass, unless find_unused.
  void after_backward(bool last);

  /// The rank a parameter belongs to; nothing for one that all ranks keep and none updates.
  std::optional<int64_t> owner(const at::Tensor& parameter) const;
  /// Whether this rank's value of it counts.
  bool is_own(const at::Tensor& parameter) const {
    return owner(parameter).value_or(ranks_.rank()) == ranks_.rank();
  }

  /// Every rank wrote weights of its own outside of an update: the next pass sends what others
  /// need.
  void written() { written_ = true; }

  /// Leaves all weights on all ranks, for what comes after training: from then on no pass waits for
  /// another rank, unless it follows written(). Weights stay divided, with a warning, where a rank
  /// has no memory for them.
  void make_whole();

  /// Bytes of gradients that this rank gave to be summed since the beginning.
  int64_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Piece;
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
  /// The backward pass comes to the unit.
  void open(Unit& unit);
  /// It has gone through the unit.
  void close(Unit& unit);
  void sum_gradients(Unit& unit);
  void sum_waiting();
  void begin_sum(Piece& piece);
  void end_sums();
  void check_arrived() const;
  void hand_over(Piece& piece);
  template <class F>
  void each_piece(const F& work);

  std::shared_ptr<Model> model_;  ///< whose slots know of the units
  Ranks ranks_;
  ShardingOptions options_;
  std::unique_ptr<Collectives> collectives_;
  std::map<const at::TensorImpl*, int64_t> owners_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<Slot*> slots_;         ///< that are units
  std::unique_ptr<Unit> residents_;  ///< parameters that are there always
  std::vector<Piece*> summing_;      ///< whose gradients are under way
  std::vector<Unit*> waiting_;       ///< recomputed: whose gradients are still to come
  Unit* last_entered_ = nullptr;     ///< in this forward pass
  Unit* open_ = nullptr;             ///< in this backward pass
  int64_t passes_ = 0;
  int64_t sent_bytes_ = 0;
  bool in_backward_ = false;
  bool written_ = true;    ///< since weights that all ranks have were sent
  bool recorded_ = false;  ///< autograd, the last pass
  bool whole_ = false;
};

}  // namespace composer
