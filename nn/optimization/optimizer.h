// Optimizers over named parameters, updated in one pass over memory or by multi-tensor operations.
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

/// What a parameter is trained with.
struct ParameterSettings {
  double initial_lr = 0;  ///< before schedulers
  double weight_decay = 0;
  int64_t rule = 0;  ///< which of the optimizer's formulas, where it has several

  bool operator==(const ParameterSettings&) const = default;
};

/// The parameters that share their settings.
struct ParameterGroup : ParameterSettings {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  at::Tensor lr;  ///< as schedulers made it, float32 scalar on the parameters' device; its address
                  ///< stays
};

/// What each rank has of its share of the parameters alone.
enum class Divided {
  nothing,
  state,   ///< Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion
           ///< Parameter Models", stage 1
  weights  ///< the parameters and gradients too: ShardedParameters
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Takes all parameters of `model` that require gradients; steps in one pass write their bfloat16
  /// copies (HasShadows) too. Called once the model is on its device. RunError when there are none,
  /// UserError for a group whose pattern fits none of them, and for layer_decay where the model has
  /// no slots.
  /// ranks: that make the same updates, among which work may be divided. divided: whole parameters
  /// are shared out by their size, and each rank updates its own, whose state it keeps; where only
  /// the state is divided, it sends them to the others.
  void attach(torch::nn::Module& model, const Ranks& ranks = {},
              Divided divided = Divided::nothing);
  /// After surgery: drops parameters (and their state) that the model no longer has and takes up
  /// new ones.
  void follow(torch::nn::Module& model);

  /// Multiplies the learning rates of single parameters, by name, from now on; each keeps the share
  /// that weight decay takes of it in a step. Factors of several calls multiply. Names that the
  /// model does not have do no harm.
  void scale_lr(const std::map<std::string, double>& factors);

  /// One update from the parameters' gradients. found_inf: a float32 scalar on the device; where it
  /// is 1 nothing changes. May be undefined. Parameters without a gradient are left alone.
  void step(const at::Tensor& found_inf = {});
  /// Has the next step also move averages += share * (weights - averages) as at::lerp does, the
  /// weights being as it leaves them, also where it skips or does not train them: those that it
  /// updates in one pass over memory, in the same pass. The lists run in parallel; floating point.
  /// Adds to what was asked for before; an average of the same weight gets the new share.
  void average_with_next_step(const std::vector<at::Tensor>& weights,
                              const std::vector<at::Tensor>& averages, double share);
  /// Whether a step from the gradients that are there would wait for found_inf on a GPU.
  bool first_update_waits() const;
  void zero_grad();

  /// Sets every group's lr to multiplier * initial_lr, without waiting for the device.
  void set_lr_multiplier(double multiplier);
  /// Multiplies every group's lr until it is set again.
  void scale_lr_until_set(double factor);
  double lr() const;  ///< the recipe's, as last set and scaled

  const std::vector<ParameterGroup>& groups() const { return groups_; }
  std::vector<at::Tensor> parameters() const;  ///< of all groups
  std::vector<at::Tensor> gradients() const;   ///< those that are there
  /// The parameters with the ranks that update them; empty where every rank does.
  std::vector<std::pair<at::Tensor, int64_t>> owners() const;

  /// State tensors named "<kind>.<parameter>", for instance "momentum_buffer.conv1.weight": the
  /// optimizer's own, not copies.
  StateDict state_dict() const;
  /// Whether there are such tensors once it has made steps.
  bool keeps_state() const { return !kinds_.empty(); }
  /// How many numbers of state it keeps then for each element of a parameter.
  int64_t state_numbers() const;
  /// Copies this rank's. UserError naming every tensor that does not fit the attached parameters.
  void load_state_dict(const StateDict& state);

 protected:
  struct Options {
    double lr = 0;
    double weight_decay = 0;
    bool no_decay_norm_bias = false;  ///< parameters of at most one dimension: weight_decay 0
    GroupParams grouping{};           ///< on top of these
  };
  /// One state tensor a parameter: of its shape and strides, or a float32 scalar. Starts at 0.
  struct StateKind {
    std::string name;
    bool scalar = false;
  };
  /// What one update works on. The lists run in parallel; gradients and state tensors have exactly
  /// the strides of their parameters.
  struct Update {
    const ParameterGroup& group;
    std::vector<at::Tensor> parameters, gradients;
    std::vector<std::vector<at::Tensor>> state;  ///< one list a StateKind
    bool first = false;                          ///< these parameters were never updated before
    at::Tensor found_inf;                        ///< may be undefined
  };

  const Options& options() const { return options_; }
  /// That make each update together; one where they share out the parameters.
  Ranks ranks() const { return is_divided() ? Ranks() : ranks_; }

  Optimizer(const Options& options, std::vector<StateKind> kinds)
      : options_(options), kinds_(std::move(kinds)) {}

  /// Where state is divided, it has this rank's parameters alone: a norm over all of them is to be
  /// taken elsewhere.
  virtual void update(Update& update) = 0;
  /// Whether next_rule() says what an update does to the parameters of `group` that are dense
  /// float32 on a CPU. They are updated in one pass over memory then; update() gets the others. The
  /// built-in ones say it of themselves, not of classes derived from them, which may update in
  /// another way.
  virtual bool in_one_pass(const ParameterGroup&) const { return false; }
  /// Counts the scalars of `state` on. first: the parameter was never updated before.
  virtual UpdateRule next_rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                               bool first);
  /// What the optimizer gives a parameter; its group, its depth and lr factors come on top.
  virtual ParameterSettings settings(const std::string& name, const at::Tensor& parameter) const;
  /// Whether a step's weight decay is a share of the learning rate.
  virtual bool decay_follows_lr() const { return true; }
  /// Whether a first update is another formula, not the usual one on zeros. While there are such
  /// parameters, a step that is given found_inf waits for it.
  virtual bool first_update_differs() const { return false; }

 private:
  using Named = std::vector<std::pair<std::string, at::Tensor>>;
  using State = std::vector<at::Tensor>;  ///< in the order of kinds_; empty before the first update

  /// What belongs to a parameter.
  struct Kept {
    State state;
    std::shared_ptr<Bf16Copy> shadow;  ///< may be null
    std::optional<int64_t> owner;      ///< the rank that updates it; none: every rank does
    bool known = false;                ///< all ranks know that the owner has its state
  };

  void check_patterns() const;
  void measure_depth(torch::nn::Module& model);
  ParameterSettings final_settings(const std::string& name, const at::Tensor& parameter) const;
  void regroup(const Named& parameters);
  /// Parameters that have no owner yet.
  void share_out();
  bool is_divided() const { return divided_ != Divided::nothing; }
  bool is_own(const Kept& kept) const {
    return kept.owner.value_or(ranks_.rank()) == ranks_.rank();
  }
  void find_shadows(torch::nn::Module& model);
  /// Of the parameters of `groups`, taken over for those that are in groups_ too.
  std::vector<std::vector<Kept>> take_over(const std::vector<ParameterGroup>& groups);
  /// own: else it has no memory.
  State new_state(const at::Tensor& parameter, bool own) const;
  /// New where there is none, with the parameter's strides.
  State& state_of(size_t group, size_t index);
  /// Whether it takes parameter `index` of the group, which has a gradient, into pass_.
  bool add_to_pass(size_t group, size_t index);
  void add_average(UpdateSpan& span, const at::Tensor& parameter);
  void run_pass();
  void update_all(const at::Tensor& found_inf);
  /// Takes note that other ranks have the state of what they update.
  void note_states(const at::Tensor& found_inf);
  /// The same where this rank does not see which gradients others have: they tell.
  void ask_for_states();
  /// Each rank's updated parameters to all others.
  void exchange() const;
  void move_other_averages();
  /// What was meant for a step that ended by an exception.
  void drop_step();
  void update_others(size_t group, const std::vector<size_t>& indices, const at::Tensor& found_inf);
  Update collect(size_t group, const std::vector<size_t>& indices, bool first,
                 const at::Tensor& found_inf);

  Options options_;
  Ranks ranks_;
  Divided divided_ = Divided::nothing;
  std::vector<StateKind> kinds_;
  std::map<std::string, double> lr_factors_;
  std::map<std::string, double> depth_scales_;  ///< of each parameter; empty without layer_decay
  std::vector<ParameterGroup> groups_;
  std::vector<std::vector<Kept>> kept_;  ///< as groups_ and their parameters
  double multiplier_ = 1;
  double scale_ = 1;  ///< of scale_lr_until_set

  UpdatePass pass_;
  struct Passed {
    at::Tensor parameter;
    Bf16Copy* shadow;    ///< that the pass writes; may be null
    at::Tensor average;  ///< that it moves; may be undefined
  };
  std::vector<Passed> passed_;         ///< in pass_
  std::vector<at::Tensor> gradients_;  ///< that pass_ reads
  struct Average {
    at::Tensor weight, average;
    double share;
  };
  /// Of the next step, as far as they are not in pass_; by their weight.
  std::unordered_multimap<const at::TensorImpl*, Average> averages_;
};

}  // namespace composer
