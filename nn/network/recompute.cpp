#include "nn/network/recompute.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <set>

#include "base/error.h"
#include "nn/device/snapshot.h"
#include "nn/network/autograd_node.h"
#include "nn/network/fused_norm.h"
#include "nn/network/operations.h"
#include "nn/network/precision.h"
#include "nn/network/spatial_parallel.h"

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local bool second_time = false;

class SecondTime {
 public:
  SecondTime() : before_(std::exchange(second_time, true)) {}
  ~SecondTime() { second_time = before_; }
  SecondTime(const SecondTime&) = delete;
  SecondTime& operator=(const SecondTime&) = delete;

 private:
  bool before_;
};

Precision precision_here(at::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device)) return Precision::fp32;
  return at::autocast::get_autocast_dtype(device) == at::kHalf ? Precision::amp_fp16
                                                               : Precision::amp_bf16;
}

/// How ranks divide the images of `input`; nothing without spatial parallelism.
std::optional<SpatialParallel::Start> distribution_of(const at::Tensor& input) {
  const auto* const parallel = SpatialParallel::current();
  const auto known = parallel == nullptr ? std::nullopt : parallel->find(input);
  return known ? std::optional(SpatialParallel::Start{parallel->ranks(), *known}) : std::nullopt;
}

/// The state in which the first pass ran.
struct FirstPass {
  std::shared_ptr<Layer> layer;
  at::Device device;
  Precision precision;
  std::vector<at::Tensor> generators;
  bool unfused;
  std::optional<SpatialParallel::Start> distribution;  ///< nothing without spatial parallelism
};

// The parameters are inputs of the node, so that it returns their gradients, which then go the same
// way as those of other layers.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::TensorList& parameters, const std::shared_ptr<Layer>& layer) {
    const auto device = input.device();
    context->saved_data["first"] =
        held(FirstPass{layer, device, precision_here(device.type()), generator_states(device),
                       Unfused::here(), distribution_of(input)});
    variable_list saved{input};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(std::move(saved));
    const auto version = input._version();
    const auto output = layer->forward(input);
    if (input._version() != version)
      throw UserError(layer->describe() +
                      " overwrites its input, which it would need to be computed again: leave it "
                      "out of activation_checkpointing, or let its first layer make a new tensor");
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto& first = held_in<FirstPass>(*context, "first");
    variable_list wanted;
    const auto input = saved[0].detach().requires_grad_(context->needs_input_grad(0));
    for (size_t i = 0; i < saved.size(); ++i)
      if (context->needs_input_grad(i)) wanted.push_back(i == 0 ? input : saved[i]);
    auto found = computed_again(first, input, wanted, gradients[0]);

    variable_list results(saved.size() + 1);
    for (size_t i = 0, next = 0; i < saved.size(); ++i)
      if (context->needs_input_grad(i)) results[i] = std::move(found[next++]);
    return differentiable_once(std::move(results), "a block that is computed again",
                               "leave it out of activation_checkpointing");
  }

  static variable_list computed_again(const FirstPass& first, const at::Tensor& input,
                                      const variable_list& wanted, const at::Tensor& gradient) {
    const at::AutoGradMode with_grad(true);
    const SecondTime second_time;
    std::optional<Unfused> unfused;  // on a GPU the backward pass runs in another thread
    if (first.unfused) unfused.emplace();
    at::Tensor output;
    {
      const DrawsAgain draws(first.device, first.generators);
      const Autocast autocast(first.precision, first.device);
      std::optional<SpatialParallel> parallel;
      if (first.distribution) parallel.emplace(*first.distribution, input);
      output = first.layer->forward(input);
    }
    // The layer returned its input.
    if (!output.requires_grad()) return variable_list(wanted.size());
    return torch::autograd::grad({output}, wanted, {gradient}, /*retain_graph=*/false,
                                 /*create_graph=*/false, /*allow_unused=*/true);
  }
};

}  // namespace

at::Tensor recomputed(Layer& layer, const at::Tensor& input) {
  if (!at::GradMode::is_enabled() || op::recorded()) return layer.forward(input);
  std::vector<at::Tensor> parameters;
  std::set<const at::TensorImpl*> seen;
  for (const auto& parameter : layer.parameters())
    if (parameter.requires_grad() && seen.insert(parameter.unsafeGetTensorImpl()).second)
      parameters.push_back(parameter);
  if (parameters.empty() && !input.requires_grad()) return layer.forward(input);
  const auto output = Recomputed::apply(input, at::TensorList(parameters),
                                        std::static_pointer_cast<Layer>(layer.shared_from_this()));
  // Autograd returns a new tensor where the layer returns its input.
  const bool handed_on = output.is_alias_of(input) && output.sizes().equals(input.sizes()) &&
                         !distribution_of(output).has_value();
  return handed_on ? op::converted(output, input) : output;
}

bool again() { return second_time; }

}  // namespace composer
