// The operators of the stand-in's GPU: those of the CPU, on the same memory. Like CUDA's they
// refuse tensors of different devices. Whatever makes the host wait for a GPU is noted as "wait:
// ...".
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <set>

#include "tests/stand_in/host.h"
#include "tests/stand_in/log.h"
#include "tests/stand_in/memory.h"
#include "tests/stand_in/streams.h"
#include "tests/stand_in/tape.h"

namespace composer::stand_in {
namespace {

using Below = at::AutoDispatchBelowADInplaceOrView;

/// What a tensor holds that is being copied.
constexpr int not_there_yet = 85;

using stand_in::on_host;

/// Whose memory is allocated from.
class OnDevice {
 public:
  explicit OnDevice(std::optional<at::Device> device) {
    if (device && device->has_index()) current_device() = device->index();
  }
  ~OnDevice() { current_device() = before_; }

 private:
  c10::DeviceIndex before_ = current_device();
};

at::Tensor on_gpu(const at::Tensor& tensor) {
  const at::Device gpu{at::kCUDA, current_device()};
  if (!tensor.defined() || tensor.is_cuda()) return tensor;
  if (tensor.numel() == 0)
    return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(gpu));
  return at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), [tensor](void*) {},
      tensor.options().device(gpu), gpu);
}

c10::IValue on_host(const c10::IValue& value) {
  if (value.isTensor()) return on_host(value.toTensor());
  if (value.isDevice()) return at::Device(at::kCPU);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(on_host(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::optional(on_host(*tensor)) : std::nullopt);
    return list;
  }
  return value;
}

c10::IValue on_gpu(const c10::IValue& value) {
  if (value.isTensor()) return on_gpu(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(on_gpu(tensor));
    return list;
  }
  return value;
}

void refuse_other_devices(const std::string& name, const std::vector<c10::IValue>& arguments) {
  const auto elsewhere = [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && !value.toTensor().is_cuda() &&
           value.toTensor().dim() > 0;
  };
  for (const auto& argument : arguments)
    TORCH_CHECK(!elsewhere(argument), name,
                ": Expected all tensors to be on the same device, but one is on the CPU");
}

bool waits(const std::string& name, const std::vector<c10::IValue>& arguments) {
  static const std::set<std::string> waiting{
      "aten::_local_scalar_dense", "aten::nonzero",  "aten::equal",
      "aten::masked_select",       "aten::_unique2", "aten::bincount"};
  static const std::set<std::string> sorting{"aten::index_copy", "aten::index_copy_",
                                             "aten::_index_put_impl_", "aten::scatter_add",
                                             "aten::scatter_add_"};
  if (sorting.contains(name) && at::globalContext().deterministicAlgorithms()) return true;
  return waiting.contains(name) || (name == "aten::repeat_interleave" && arguments.back().isNone());
}

/// That of the tensors.
std::optional<at::Device> device_of(const std::vector<c10::IValue>& arguments) {
  for (const auto& argument : arguments) {
    if (argument.isTensor() && argument.toTensor().defined() && argument.toTensor().is_cuda())
      return argument.toTensor().device();
    if (argument.isTensorList())
      for (const at::Tensor& tensor : argument.toTensorVector())
        if (tensor.is_cuda()) return tensor.device();
    if (argument.isDevice() && argument.toDevice().is_cuda()) return argument.toDevice();
  }
  return std::nullopt;
}

/// An argument that is written, as large as the operator made it.
void take_size(const at::Tensor& written, const at::Tensor& host) {
  if (written.sizes() == host.sizes()) return;
  written.resize_(host.sizes());
  on_host(written).copy_(host);
}

void copy_values(const c10::IValue& to, const c10::IValue& from) {
  if (to.isTensor() && to.toTensor().defined()) on_host(to.toTensor()).copy_(from.toTensor());
  if (!to.isTensorList()) return;
  const auto list = to.toTensorVector(), values = from.toTensorVector();
  for (size_t i = 0; i < list.size(); ++i) copy_values(list[i], values[i]);
}

/// Calls the operator again, its results into the places of `results`, but for those that are
/// arguments.
void compute_again(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments,
                   const std::vector<c10::IValue>& results) {
  const Below below;
  c10::Stack stack;
  for (const auto& argument : arguments) stack.push_back(on_host(argument));
  op.callBoxed(&stack);
  for (size_t r = 0; r < results.size(); ++r)
    if (op.schema().returns()[r].alias_info() == nullptr) copy_values(results[r], stack[r]);
}

void compute_on_host(const c10::OperatorHandle& op, c10::Stack* stack) {
  const Below below;
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size();
  const std::vector<c10::IValue> arguments(stack->end() - static_cast<int64_t>(count),
                                           stack->end());
  refuse_other_devices(schema.name(), arguments);
  const OnDevice device(device_of(arguments));
  if (waits(schema.name(), arguments)) {
    refuse_while_recording(schema.name());
    note("wait: " + schema.name());
  }
  torch::jit::drop(*stack, count);
  std::vector<c10::IValue> hosts;
  for (const auto& argument : arguments) hosts.push_back(on_host(argument));
  stack->insert(stack->end(), hosts.begin(), hosts.end());
  op.callBoxed(stack);

  std::vector<c10::IValue> results(stack->end() - static_cast<int64_t>(schema.returns().size()),
                                   stack->end());
  torch::jit::drop(*stack, results.size());
  for (size_t i = 0; i < count; ++i)
    if (const auto* alias = schema.arguments()[i].alias_info();
        alias != nullptr && alias->isWrite() && arguments[i].isTensor() &&
        arguments[i].toTensor().is_cuda())
      take_size(arguments[i].toTensor(), hosts[i].toTensor());
  for (size_t r = 0; r < results.size(); ++r) {
    const auto* alias = schema.returns()[r].alias_info();
    c10::IValue result = alias == nullptr ? on_gpu(results[r]) : c10::IValue();
    for (size_t i = 0; alias != nullptr && i < count; ++i)
      if (const auto* of = schema.arguments()[i].alias_info(); of != nullptr && *of == *alias)
        result = arguments[i];
    TORCH_CHECK(alias == nullptr || alias->isWrite(), schema.name(),
                ": the stand-in does not know this view");
    stack->push_back(std::move(result));
  }
  if (recording == nullptr) return;
  const std::vector<c10::IValue> made(stack->end() - static_cast<int64_t>(results.size()),
                                      stack->end());
  recording->push_back([op, arguments, made] { compute_again(op, arguments, made); });
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const OnDevice there(device);
  return at::detail::empty_generic(size, c10::GetAllocator(at::kCUDA),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const OnDevice there(device);
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(at::kCUDA),
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           type.value_or(at::kFloat));
}

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size,
                          std::optional<at::MemoryFormat>) {
  auto* tensor = self.unsafeGetTensorImpl();
  tensor->set_sizes_contiguous(size);
  const OnDevice there(self.device());
  const auto bytes = static_cast<size_t>(self.numel()) * self.itemsize();
  if (bytes > self.storage().nbytes()) {
    self.storage().set_data_ptr_noswap(c10::GetAllocator(at::kCUDA)->allocate(bytes));
    self.storage().set_nbytes(bytes);
  }
  return self;
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& from, bool non_blocking) {
  const Below below;
  if (self.is_cuda() != from.is_cuda()) {
    refuse_while_recording("copy between host and GPU");
    const auto& host = self.is_cuda() ? from : self;
    const auto bytes = std::to_string(from.nbytes()) + " bytes";
    if (!host.is_pinned())
      note((self.is_cuda() ? "wait: upload of " : "wait: download of ") + bytes + ", not pinned");
    else if (!non_blocking)
      note("wait: copy of " + bytes);
  }
  if (self.is_cuda() && !from.is_cuda() && from.is_pinned() && non_blocking &&
      current_stream != 0) {
    on_host(self).fill_(not_there_yet);
    CopiesUnderWay::begin([self, from] {
      const Below not_recorded_for_gradients;
      on_host(self).copy_(from);
    });
    return self;
  }
  on_host(self).copy_(on_host(from));
  if (recording != nullptr)
    recording->push_back([self, from] {
      const Below not_recorded_for_gradients;
      on_host(self).copy_(on_host(from));
    });
  return self;
}

void record_stream(at::Tensor&, at::Stream stream) {
  note("memory used on stream " + std::to_string(stream.id()));
}

}  // namespace

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&compute_on_host>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &as_strided);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("resize_", &resize_);
  library.impl("copy_", &copy_);
  library.impl("record_stream", &record_stream);
  for (const char* composite : {"convolution", "convolution_backward"})
    library.impl(composite, torch::CppFunction::makeFromBoxedFunction<&compute_on_host>());
}

}  // namespace composer::stand_in
