// Optimizers of named parameters, which update in one pass over memory or by multi-tensor
// operations.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nn/distributed/ranks.h"
#include "nn/network/layer.h"
#include "nn/optimization/parameter_groups.h"
#include "nn/optimization/update_pass.h"
#include "nn/state_dict.h"

namespace composer {

class Bf16Copy;

/// The training settings of a parameter.
struct ParameterSettings {
  double initial_lr = 0;  ///< before schedulers
  double weight_decay = 0;
  int64_t rule = 0;  ///< index of the formula, for optimizers with several

  bool operator==(const ParameterSettings&) const = default;
};

/// Parameters with the same settings.
struct ParameterGroup : ParameterSettings {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  /// The scheduled learning rate: a float32 scalar on the parameters' device, whose address does
  /// not change.
  at::Tensor lr;
};

/// The part of the training state that only a parameter's owner keeps.
enum class Divided {
  nothing,
  state,   ///< Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion
           ///< Parameter Models", stage 1
  weights  ///< also the parameters and gradients: ShardedParameters
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Takes all parameters of `model` that require gradients; steps in one pass also write their
  /// bfloat16 copies (Bf16Copy). Call it once the model is on its device. RunError without such
  /// parameters, UserError for a group whose pattern fits none, and for layer_decay where the model
  /// has no slots. ranks: make the same updates, and may divide the work. sharding: whole
  /// parameters are shared out by size; each rank updates its own parameters and keeps their state,
  /// and where only the state is sharded it sends them to the others.
  void attach(torch::nn::Module& model, const Ranks& ranks = {},
              Divided sharding = Divided::nothing);
  /// Call it after surgery: drops parameters (and their state) that the model no longer has, and
  /// takes new ones.
  void follow(torch::nn::Module& model);

  /// Multiplies the learning rates of single parameters, by name, from now on; weight decay's
  /// fraction of a step does not change. Factors of several calls multiply. Unknown names are
  /// ignored.
  void scale_lr(const std::map<std::string, double>& factors);

  /// One update from the parameters' gradients. found_inf: a float32 scalar on the device, or
  /// undefined; where it is 1 nothing changes. Parameters without a gradient do not change.
  void step(const at::Tensor& found_inf = {});
  /// Lets the next step also move averages += share * (weights - averages), as at::lerp does,
  /// towards the weights after the step, even where it skips or does not train them; averages of
  /// weights that are updated in one pass over memory move in the same pass. The lists run in
  /// parallel; floating point. Adds to earlier requests for the same step; an average of the same
  /// weight gets the new share.
  void average_with_next_step(const std::vector<at::Tensor>& weights,
                              const std::vector<at::Tensor>& averages, double share);
  /// Whether a step with the current gradients would wait for found_inf on a GPU.
  bool first_update_waits() const;
  void zero_grad();

  /// Sets every group's lr to multiplier * initial_lr, without waiting for the device.
  void set_lr_multiplier(double multiplier);
  /// Multiplies every group's lr until the next set_lr_multiplier().
  void scale_lr_until_set(double factor);
  double lr() const;  ///< the recipe's, as last set and scaled

  const std::vector<ParameterGroup>& groups() const { return groups_; }
  std::vector<at::Tensor> parameters() const;  ///< all groups' parameters
  std::vector<at::Tensor> gradients() const;   ///< gradients that are defined
  /// The parameters with the ranks that update them; empty where every rank updates all.
  std::vector<std::pair<at::Tensor, int64_t>> owners() const;

  /// State tensors named "<kind>.<parameter>", for instance "momentum_buffer.conv1.weight". They
  /// are not copies.
  StateDict state_dict() const;
  /// Whether the optimizer has state tensors after its first step.
  bool keeps_state() const { return !kinds_.empty(); }
  /// State elements per element of a parameter.
  int64_t state_numbers() const;
  /// Copies this rank's tensors. UserError naming every tensor that does not fit the attached
  /// parameters.
  void load_state_dict(const StateDict& state);

 protected:
  struct Options {
    double lr = 0;
    double weight_decay = 0;
    bool no_decay_norm_bias = false;  ///< parameters of at most one dimension have weight_decay 0
    GroupParams grouping{};           ///< changes the settings above for single parameters
  };
  /// The options from a Params with all of them.
  static Options options_of(const auto& params) {
    return {params.lr, params.weight_decay, params.no_decay_norm_bias, params.grouping};
  }
  /// One state tensor a parameter: of its shape and strides, or a float32 scalar. Starts at 0.
  struct StateKind {
    std::string name;
    bool scalar = false;
  };
  using State = std::vector<at::Tensor>;  ///< in the order of kinds_; empty before the first update
  /// The arguments of an update. The lists run in parallel; gradients and state tensors have
  /// exactly the strides of their parameters.
  struct Update {
    const ParameterGroup& group;
    std::vector<at::Tensor> parameters, gradients;
    std::vector<std::vector<at::Tensor>> state;  ///< one list per StateKind
    bool first = false;                          ///< these parameters have never been updated
    at::Tensor found_inf;                        ///< may be undefined
  };

  /// The ranks that make each update together; a single rank where they share out the parameters.
  Ranks ranks() const { return is_sharded() ? Ranks() : ranks_; }

  Optimizer(const Options& options, std::vector<StateKind> kinds)
      : options_(options), kinds_(std::move(kinds)) {}

  /// Where state is sharded, `update` has only this rank's parameters: a norm over all parameters
  /// must be computed elsewhere.
  virtual void update(Update& update) = 0;
  /// Whether next_rule() describes the update of the group's dense float32 parameters on a CPU.
  /// They are updated in one pass over memory then, and update() gets only the others. Built-in
  /// optimizers return false for derived classes, which may override update().
  virtual bool in_one_pass(const ParameterGroup&) const { return false; }
  /// Increments the scalars of `state`. first: the parameter has never been updated.
  virtual UpdateRule next_rule(const ParameterGroup& group, const State& state, bool first);
  /// The optimizer's own settings for a parameter; its group, its depth and lr factors are applied
  /// afterwards.
  virtual ParameterSettings settings(const std::string& name, const at::Tensor& parameter) const;
  /// Whether a step's weight decay is multiplied by the learning rate.
  virtual bool decay_follows_lr() const { return true; }
  /// Whether a first update uses another formula than the usual one with zeros as state. While some
  /// parameters have never been updated, a step with found_inf waits for it.
  virtual bool first_update_differs() const { return false; }

 private:
  using Named = std::vector<std::pair<std::string, at::Tensor>>;

  /// The optimizer's data of one parameter.
  struct Kept {
    State state;
    std::shared_ptr<Bf16Copy> bf16_copy;  ///< may be null
    std::optional<int64_t> owner;         ///< the rank that updates it; nothing: every rank does
    bool known = false;                   ///< all ranks know that the owner has state for it
  };

  void check_patterns() const;
  void measure_depth(torch::nn::Module& model);
  ParameterSettings final_settings(const std::string& name, const at::Tensor& parameter) const;
  void regroup(const Named& parameters);
  /// Gives owners to parameters that have none.
  void share_out();
  bool is_sharded() const { return sharding_ != Divided::nothing; }
  bool is_own(const Kept& kept) const {
    return kept.owner.value_or(ranks_.rank()) == ranks_.rank();
  }
  void find_bf16_copies(torch::nn::Module& model);
  /// The entries of the parameters of `groups`; moved from kept_ for parameters in groups_.
  std::vector<std::vector<Kept>> take_over(const std::vector<ParameterGroup>& groups);
  /// own: with memory; else tensors of device meta.
  State new_state(const at::Tensor& parameter, bool own) const;
  /// Creates missing state; aligns it with the parameter's strides.
  State& state_of(size_t group, size_t index);
  /// Adds parameter `index` of the group, which has a gradient, to pass_; false where update() must
  /// update it.
  bool add_to_pass(size_t group, size_t index);
  void add_average(UpdateSpan& span, const at::Tensor& parameter);
  void run_pass();
  void update_all(const at::Tensor& found_inf);
  /// Creates the states that other ranks now have for their parameters.
  void note_states(const at::Tensor& found_inf);
  /// note_states() for Divided::weights, where a rank does not see which gradients others have:
  /// their owners tell.
  void ask_for_states();
  /// Sends each rank's updated parameters to all others.
  void exchange() const;
  void move_other_averages();
  /// Clears what was prepared for a step that failed.
  void drop_step();
  void update_others(size_t group, const std::vector<size_t>& indices, const at::Tensor& found_inf);
  Update collect(size_t group, const std::vector<size_t>& indices, bool first,
                 const at::Tensor& found_inf);

  Options options_;
  Ranks ranks_;
  Divided sharding_ = Divided::nothing;
  std::vector<StateKind> kinds_;
  std::map<std::string, double> lr_factors_;
  std::map<std::string, double> depth_scales_;  ///< factor by parameter; empty without layer_decay
  std::vector<ParameterGroup> groups_;
  std::vector<std::vector<Kept>> kept_;  ///< runs in parallel to groups_ and their parameters
  double multiplier_ = 1;
  double scale_ = 1;  ///< the product of scale_lr_until_set()

  UpdatePass pass_;
  struct Passed {
    at::Tensor parameter;
    Bf16Copy* bf16_copy;  ///< written by the pass; may be null
    at::Tensor average;   ///< moved by the pass; may be undefined
  };
  std::vector<Passed> passed_;         ///< parameters in pass_
  std::vector<at::Tensor> gradients_;  ///< gradients that pass_ reads
  struct Average {
    at::Tensor weight, average;
    double share;
  };
  /// Averages to move with the next step that are not in pass_, by their weight.
  std::unordered_multimap<const at::TensorImpl*, Average> averages_;
};

}  // namespace composer
