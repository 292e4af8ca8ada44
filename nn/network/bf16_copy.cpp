#include "nn/network/bf16_copy.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "nn/network/operations.h"

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct RoundWeight : torch::autograd::Function<RoundWeight> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weight, Bf16Copy* copy) {
    context->saved_data["sizes"] = weight.sizes().vec();
    context->saved_data["strides"] = weight.strides().vec();
    return copy->of(weight);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto gradient = at::empty_strided(context->saved_data["sizes"].toIntVector(),
                                            context->saved_data["strides"].toIntVector(),
                                            gradients[0].options().dtype(at::kFloat));
    return {gradient.copy_(gradients[0]), at::Tensor()};
  }
};

/// Whether the weight outlives the pass, and counts its versions.
bool is_kept(const at::Tensor& weight) { return weight.is_leaf() && !weight.is_inference(); }

}  // namespace

bool Bf16Copy::is_good_for(const at::Tensor& weight) const {
  return copy_.defined() && storage_ &&
         storage_->_unsafe_get_target() == weight.storage().unsafeGetStorageImpl() &&
         data_ == weight.const_data_ptr() && version_ == weight._version() &&
         copy_.sizes() == weight.sizes() && copy_.strides() == weight.strides();
}

bool Bf16Copy::has_room_for(const at::Tensor& weight) const {
  return copy_.defined() && copy_.storage().use_count() == 1 && !is_released() &&
         copy_.sizes() == weight.sizes() && copy_.strides() == weight.strides();
}

at::Tensor Bf16Copy::of(const at::Tensor& weight) {
  const std::lock_guard lock(mutex_);
  if (!is_good_for(weight)) {
    const c10::InferenceMode no_inference(false);  // the copy serves training steps too
    const at::NoGradGuard no_grad;
    if (!has_room_for(weight)) copy_ = at::empty_like(weight, at::kBFloat16);
    copy_.copy_(weight);
    filled_for(weight);
  }
  return copy_.variable_data();
}

bool Bf16Copy::is_released() const { return copy_.storage().data() == nullptr; }

void Bf16Copy::release() {
  const std::lock_guard lock(mutex_);
  storage_.reset();
  if (!copy_.defined()) return;
  if (copy_.storage().use_count() == 1) return copy_.reset();
  copy_.storage().set_data_ptr_noswap({nullptr, copy_.device()});
  copy_.storage().set_nbytes(size_t{0});
}

void Bf16Copy::restore(const at::Tensor& weight) {
  const std::lock_guard lock(mutex_);
  if (!copy_.defined() || !is_released()) return;
  const c10::InferenceMode no_inference(false);
  const at::NoGradGuard no_grad;
  copy_.storage().set_data_ptr_noswap(c10::GetAllocator(at::kCPU)->allocate(copy_.nbytes()));
  copy_.storage().set_nbytes(copy_.nbytes());
  copy_.copy_(weight);
  filled_for(weight);
}

at::BFloat16* Bf16Copy::room_for(const at::Tensor& weight) {
  return has_room_for(weight) ? copy_.mutable_data_ptr<at::BFloat16>() : nullptr;
}

void Bf16Copy::filled_for(const at::Tensor& weight) {
  storage_.emplace(weight.storage().getWeakStorageImpl());
  data_ = weight.const_data_ptr();
  version_ = weight._version();
}

bool is_rounded_by_autocast(const at::Tensor& weight) {
  return weight.is_cpu() && weight.scalar_type() == at::kFloat &&
         at::autocast::is_autocast_enabled(at::kCPU) &&
         at::autocast::get_autocast_dtype(at::kCPU) == at::kBFloat16;
}

at::Tensor rounded_weight(const at::Tensor& weight, Bf16Copy& copy) {
  return is_kept(weight) ? copy.of(weight) : weight.detach().to(at::kBFloat16);
}

at::Tensor autocast_weight(const at::Tensor& weight, const std::shared_ptr<Bf16Copy>& copy) {
  if (!weight.defined() || !is_rounded_by_autocast(weight) || !is_kept(weight) || op::recorded())
    return weight;
  if (!weight.requires_grad() || !at::GradMode::is_enabled()) return copy->of(weight);
  return RoundWeight::apply(weight, copy.get());
}

}  // namespace composer
