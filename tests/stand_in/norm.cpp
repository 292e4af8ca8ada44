// Stands in for libcomposer_cuda.so: its kernels of batch normalisation, run by the host. With
// STAND_IN_NORM=0 it has none.
#include <ATen/core/LegacyTypeDispatch.h>
#include <dlfcn.h>

#include "cuda/norm_on_device.h"
#include "tests/on_host.h"
#include "tests/stand_in/host.h"
#include "tests/stand_in/log.h"

namespace composer::stand_in {
namespace {

using namespace composer::cuda;

struct Host {
  static std::string refusal(at::Device) { return ""; }
  static void forward(const NormForwardArguments& given, at::Device) {
    OnHost run;
    with_type<at::Half, at::BFloat16>(given.type,
                                      [&]<class T>() { forward_passes<T>(given, run); });
  }
  static void backward(const NormBackwardArguments& given, at::Device) {
    OnHost run;
    with_type<at::Half, at::BFloat16>(given.type,
                                      [&]<class T>() { backward_passes<T>(given, run); });
  }
};

void copy_values(const at::Tensor& to, const at::Tensor& from) {
  if (to.defined()) stand_in::on_host(to).copy_(stand_in::on_host(from));
}

/// Has a replay do the same work again.
void record(const std::function<void()>& work) {
  static auto* const into = reinterpret_cast<void (*)(const std::function<void()>&)>(
      dlsym(RTLD_DEFAULT, "composer_stand_in_record"));
  into([work] {
    const at::AutoDispatchBelowADInplaceOrView not_recorded_for_gradients;
    work();
  });
}

struct Kernels : NormOnDevice<Host> {
  NormOutput forward(const NormCall& call) const override {
    const auto made = NormOnDevice::forward(call);
    note(std::string("norm") + (call.has_residual_norm() ? " with residual_norm" : "") +
         (call.pool ? " with pool" : ""));
    record([this, call, made] {
      const auto again = NormOnDevice::forward(call);
      copy_values(made.output, again.output);
      copy_values(made.statistics, again.statistics);
      copy_values(made.marks, again.marks);
    });
    return made;
  }
  NormGradients backward(const NormBackward& call) const override {
    const auto made = NormOnDevice::backward(call);
    note(std::string("norm backward") + (call.added.defined() ? " with join" : "") +
         (call.marks.defined() && !call.pool ? " with marks" : ""));
    record([this, call, made] {
      const auto again = NormOnDevice::backward(call);
      for (const auto member :
           {&NormGradients::input, &NormGradients::residual, &NormGradients::weight,
            &NormGradients::bias, &NormGradients::residual_weight, &NormGradients::residual_bias})
        copy_values(made.*member, again.*member);
    });
    return made;
  }
};

}  // namespace
}  // namespace composer::stand_in

extern "C" const composer::NormKernels* composer_norm_kernels() {
  static const composer::stand_in::Kernels kernels;
  return composer::stand_in::number("STAND_IN_NORM", 1) == 1 ? &kernels : nullptr;
}
