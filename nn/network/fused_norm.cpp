#include "nn/network/fused_norm.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <array>
#include <map>
#include <mutex>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "nn/device/cuda_library.h"
#include "nn/device/optional_tensor.h"
#include "nn/network/autograd_node.h"
#include "nn/network/layer.h"

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The kernels of libcomposer_cuda.so; null where it has none or cannot be opened.
const NormKernels* gpu_norm_kernels() {
  static auto* const open =
      reinterpret_cast<OpenNormKernels*>(faster_function_of_cuda_library("composer_norm_kernels"));
  return open == nullptr ? nullptr : open();
}

/// The kernels for the input's device; null where there are none.
const NormKernels* kernels_for(const at::Tensor& input) {
  if (input.is_cpu()) return &cpu_norm_kernels();
  return input.is_cuda() ? gpu_norm_kernels() : nullptr;
}

at::MemoryFormat layout_of(const at::Tensor& images) {
  return images.is_contiguous(at::MemoryFormat::ChannelsLast) ? at::MemoryFormat::ChannelsLast
                                                              : at::MemoryFormat::Contiguous;
}

at::Tensor made_like(const at::Tensor& input, const at::Tensor& other) {
  return other.to(input.scalar_type()).contiguous(layout_of(input));
}

NormOutput computed(const NormCall& call) {
  RECORD_FUNCTION("composer::fused_batch_norm", c10::ArrayRef<const c10::IValue>());
  return kernels_for(call.input)->forward(call);
}

/// Whether a residual's gradient may go directly to the fused norm that made the residual, instead
/// of through autograd, which would add it to other gradients in a pass of its own. That is right
/// where the norm's backward runs later in this backward pass and no hook looks at the gradient in
/// between; on a GPU also where both use one stream.
bool goes_unseen(torch::autograd::Node& from, torch::autograd::Node& to) {
  const auto* chosen = torch::autograd::get_current_graph_task_exec_info();
  return !at::GradMode::is_enabled() && chosen != nullptr && chosen->empty() &&
         from.post_hooks().empty() && to.pre_hooks().empty() && to.tensor_pre_hooks().empty() &&
         to.retains_grad_hooks().empty() && from.stream() == to.stream();
}

/// Residual gradients that were left with a norm, by the id of the backward pass, since several
/// passes may run through a graph at once. A failed pass's gradients are freed with the graph.
class LeftGradients : public torch::CustomClassHolder {
 public:
  /// False where the pass has already left a gradient here.
  bool put(int pass, const at::Tensor& gradient) {
    const std::lock_guard lock(mutex_);
    return gradients_.try_emplace(pass, gradient).second;
  }
  /// Undefined where the pass has left no gradient.
  at::Tensor take(int pass) {
    const std::lock_guard lock(mutex_);
    const auto found = gradients_.extract(pass);
    return found.empty() ? at::Tensor() : found.mapped();
  }

 private:
  std::mutex mutex_;
  std::map<int, at::Tensor> gradients_;
};

/// Whether the parameter's memory belongs to another tensor, as that of a sharded weight does: it
/// may be freed when the layer has run.
bool is_borrowed(const at::Tensor& parameter) {
  const auto& memory = parameter.storage().data_ptr();
  return memory.get_context() != memory.get();
}

/// Indices of the tensors that FusedBatchNorm saves.
enum Kept : size_t {
  kept_input,
  kept_residual,
  kept_output,
  kept_marks,
  kept_statistics,
  kept_weight,
  kept_bias,
  kept_weight_copy,
  kept_bias_copy
};

c10::IValue as_value(const std::optional<Pool2dOptions>& pool) {
  if (!pool) return {};
  return std::vector{pool->kernel[0], pool->kernel[1],  pool->stride[0],
                     pool->stride[1], pool->padding[0], pool->padding[1]};
}

std::optional<Pool2dOptions> pool_of(const c10::IValue& value) {
  if (value.isNone()) return {};
  const auto numbers = value.toIntVector();
  return Pool2dOptions{.kernel = {numbers[0], numbers[1]},
                       .stride = {numbers[2], numbers[3]},
                       .padding = {numbers[4], numbers[5]}};
}

struct FusedBatchNorm : torch::autograd::Function<FusedBatchNorm> {
  /// The tensors of `call` are arguments too, since autograd records arguments only.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& residual,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias,
                            const std::optional<at::Tensor>& residual_weight,
                            const std::optional<at::Tensor>& residual_bias, const NormCall& call) {
    const auto [output, statistics, marks] = computed(call);
    const bool relu = call.activation == Activation::relu,
               gelu = call.activation == Activation::gelu, rest = residual.has_value(),
               two = call.has_residual_norm(), pooled = call.pool.has_value();
    const bool reads_input = call.options.training || gelu || (relu && !rest) || two || pooled ||
                             (weight.has_value() && weight->requires_grad());
    const bool recomputes = gelu || (relu && !rest);
    // A NormSource may recompute the output.
    const bool is_source = relu && !rest && input.is_cpu();
    const at::Tensor none;
    const auto copy = [&](const at::Tensor& parameter) {
      const bool needed = is_source && parameter.defined() && is_borrowed(parameter);
      return needed ? parameter.detach().clone() : none;
    };
    context->set_materialize_grads(false);
    context->save_for_backward(
        {reads_input ? input : none, (gelu && rest) || two ? *residual : none,
         relu && rest && !marks.defined() ? output : none, marks, statistics, call.weight,
         recomputes ? call.bias : none, copy(call.weight), copy(call.bias)});
    auto& data = context->saved_data;
    data["residual"] = rest, data["weight"] = weight.has_value(), data["bias"] = bias.has_value();
    data["residual_norm"] = two, data["pool"] = as_value(call.pool);
    data["residual_weight"] = residual_weight.has_value();
    data["residual_bias"] = residual_bias.has_value();
    data["training"] = call.options.training;
    data["activation"] = static_cast<int64_t>(call.activation);
    data["source"] = is_source;
    data["left"] = c10::IValue::make_capsule(c10::make_intrusive<LeftGradients>());
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    RECORD_FUNCTION("composer::fused_batch_norm_backward", c10::ArrayRef<const c10::IValue>());
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    size_t edge = 0;
    const auto needed = [&](bool given) { return given && context->needs_input_grad(edge++); };
    NormBackward call;
    call.input = saved[kept_input], call.residual = saved[kept_residual];
    call.output = saved[kept_output], call.marks = saved[kept_marks];
    call.statistics = saved[kept_statistics];
    call.weight = saved[kept_weight], call.bias = saved[kept_bias];
    call.with_residual = data["residual"].toBool(), call.training = data["training"].toBool();
    call.residual_norm = data["residual_norm"].toBool(), call.pool = pool_of(data["pool"]);
    call.activation = static_cast<Activation>(data["activation"].toInt());
    call.for_input = needed(true), call.for_residual = needed(call.with_residual);
    call.for_weight = needed(data["weight"].toBool()),
    call.for_bias = needed(data["bias"].toBool());
    call.for_residual_weight = needed(data["residual_weight"].toBool());
    call.for_residual_bias = needed(data["residual_bias"].toBool());
    auto parts = std::vector{gradients[0], taken(*context)};
    std::erase_if(parts, [](const at::Tensor& part) { return !part.defined(); });
    if (parts.empty()) return variable_list(7);
    const auto& like = call.input.defined()    ? call.input
                       : call.output.defined() ? call.output
                                               : parts[0];
    call.gradient = made_like(like, parts[0]);
    if (parts.size() > 1) call.added = made_like(like, parts[1]);
    auto found = kernels_for(call.gradient)->backward(call);
    if (call.for_residual && !found.residual.is_same(call.gradient) && left(found.residual))
      found.residual = at::Tensor();
    variable_list all{found.input, found.residual,        found.weight,
                      found.bias,  found.residual_weight, found.residual_bias};
    all = differentiable_once(std::move(all), "fused batch normalisation",
                              "compute step by step (nn/network/fused_norm.h: Unfused)");
    all.emplace_back();
    return all;
  }

 private:
  /// Leaves a residual's gradient with the fused norm that made the residual; false where the
  /// gradient is to be returned instead.
  static bool left(const at::Tensor& gradient) {
    const auto node = torch::autograd::get_current_node();
    if (node == nullptr) return false;  // called without the autograd engine
    auto* const maker =
        dynamic_cast<torch::autograd::CppNode<FusedBatchNorm>*>(node->next_edge(1).function.get());
    if (maker == nullptr || !goes_unseen(*node, *maker)) return false;
    if (!gradient.is_cpu() && !is_on(NormFusion::join)) return false;
    return left_with(maker->ctx_).put(torch::autograd::get_current_graph_task_id(), gradient);
  }

  /// The gradient that was left here in this backward pass, or an undefined tensor.
  static at::Tensor taken(const AutogradContext& context) {
    return left_with(context).take(torch::autograd::get_current_graph_task_id());
  }

  static LeftGradients& left_with(const AutogradContext& context) {
    return static_cast<LeftGradients&>(*context.saved_data.at("left").toCapsule());
  }
};

thread_local int64_t kept_back_here = 0;

bool differentiates(const NormCall& call) {
  if (!at::GradMode::is_enabled()) return false;
  for (const auto* tensor : {&call.input, &call.residual, &call.weight, &call.bias,
                             &call.residual_norm.weight, &call.residual_norm.bias})
    if (tensor->defined() && tensor->requires_grad()) return true;
  return false;
}

at::Tensor step_by_step(NormCall call) {
  if (const auto pool = std::exchange(call.pool, std::nullopt))
    return op::max_pool2d(batch_norm_with(call), *pool);
  if (call.has_residual_norm()) {
    const auto [weight, bias, mean, var, options] = std::exchange(call.residual_norm, {});
    call.residual = batch_norm_with({.input = call.residual,
                                     .weight = weight,
                                     .bias = bias,
                                     .running_mean = mean,
                                     .running_var = var,
                                     .options = options});
    return batch_norm_with(call);
  }
  return followed_in_place(op::batch_norm(call.input, call.weight, call.bias, call.running_mean,
                                          call.running_var, call.options),
                           call.residual, call.activation);
}

/// By NormFusion.
constexpr std::array<std::string_view, 4> fusion_names{"join", "marks", "residual_norm", "pool"};

/// What COMPOSER_UNFUSED names. Says so in the log.
std::array<bool, fusion_names.size()> fusions_off() {
  std::array<bool, fusion_names.size()> off{};
  const char* const given = std::getenv("COMPOSER_UNFUSED");
  std::istringstream words(given == nullptr ? "" : given);
  for (std::string word; std::getline(words, word, ',');) {
    const auto found = std::ranges::find(fusion_names, word);
    if (found == fusion_names.end())
      throw UserError("COMPOSER_UNFUSED: '" + word + "' is none of " +
                      c10::Join(", ", fusion_names));
    off[static_cast<size_t>(found - fusion_names.begin())] = true;
    log::info("COMPOSER_UNFUSED: batch norm on the GPU runs without " + word);
  }
  return off;
}

}  // namespace

bool is_on(NormFusion fusion) {
  static const auto off = fusions_off();
  return !off[static_cast<size_t>(fusion)];
}

std::string fusions_off_text() {
  std::string text;
  for (size_t i = 0; i < fusion_names.size(); ++i)
    if (!is_on(static_cast<NormFusion>(i))) text += ", without " + std::string(fusion_names[i]);
  return text;
}

int& Unfused::count() {
  static thread_local int count = 0;
  return count;
}

bool Unfused::keeps_back() {
  if (!here()) return false;
  ++kept_back_here;
  return true;
}

int64_t Unfused::kept_back() { return kept_back_here; }

std::optional<NormSource> NormSource::of(const at::Tensor& output) {
  const auto& norm = output.grad_fn();
  auto* const made_by = dynamic_cast<torch::autograd::CppNode<FusedBatchNorm>*>(norm.get());
  if (made_by == nullptr) return {};
  if (!made_by->ctx_.saved_data.at("source").toBool()) return {};
  return NormSource(norm);
}

at::Tensor NormSource::output() const {
  RECORD_FUNCTION("composer::fused_batch_norm_again", c10::ArrayRef<const c10::IValue>());
  const auto& norm = static_cast<torch::autograd::CppNode<FusedBatchNorm>&>(*norm_);
  const auto saved = norm.ctx_.get_saved_variables();
  const auto there = [&](Kept copy, Kept original) {
    return saved[copy].defined() ? saved[copy] : saved[original];
  };
  return cpu_norm_output(saved[kept_input], saved[kept_statistics],
                         there(kept_weight_copy, kept_weight), there(kept_bias_copy, kept_bias),
                         Activation::relu);
}

std::string why_step_by_step(const NormCall& call) {
  if (op::one_by_one()) return op::recorded() ? "recorded" : "divided by rows";
  if (call.residual.defined() && call.residual.sizes() != call.input.sizes())
    return "a residual of another shape";
  const auto* kernels = kernels_for(call.input);
  const auto refusal = kernels == nullptr ? call.input.device().str() : kernels->refusal(call);
  return refusal.empty() && Unfused::keeps_back() ? "switched off" : refusal;
}

at::Tensor batch_norm_with(const NormCall& given) {
  if (!why_step_by_step(given).empty()) return step_by_step(given);
  auto call = given;
  if (call.residual.defined()) call.residual = made_like(call.input, call.residual);
  if (!differentiates(call)) return computed(call).output;
  call.with_marks = call.input.is_cuda() && (call.pool || is_on(NormFusion::marks));
  return FusedBatchNorm::apply(call.input, if_defined(call.residual), if_defined(call.weight),
                               if_defined(call.bias), if_defined(call.residual_norm.weight),
                               if_defined(call.residual_norm.bias), call);
}

}  // namespace composer
