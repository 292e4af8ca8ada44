#include "nn/network/recorder.h"

#include <torch/nn/module.h>

#include <utility>

#include "base/error.h"

namespace composer {
namespace {

Graph::Value described(const at::Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.scalar_type(), std::nullopt, {}, {}};
}

int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<int64_t>(tensor._version());
}

/// "; use op::multiply" for LibTorch's mul, where namespace op has such a function.
std::string advice(std::string operation) {
  if (operation.ends_with('_')) operation.pop_back();
  if (operation == "mul") return "; use op::multiply, or op::scale for a number";
  if (operation == "permute") return "; use op::to_nhwc or op::to_nchw";
  if (operation == "view" || operation == "reshape") operation = "flatten";
  for (auto kind = OperationKind(); kind <= OperationKind::unsqueeze;
       kind = static_cast<OperationKind>(static_cast<int>(kind) + 1))
    if (name(kind) == operation) return "; use op::" + operation;
  return "; a tensor that does not depend on the network's input goes through op::constant";
}

std::string text_of_layer(const std::string& layer) { return layer.empty() ? "the model" : layer; }

}  // namespace

Recorder::Recorder(const torch::nn::Module& model, const at::Tensor& input)
    : before_(std::exchange(current_, this)),
      callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(starts, ends)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {
  for (const auto& item : model.named_parameters())
    names_.emplace(item.value().unsafeGetTensorImpl(), item.key());
  for (const auto& item : model.named_buffers())
    names_.emplace(item.value().unsafeGetTensorImpl(), item.key());
  graph_.input = add(described(input), input);
}

Recorder::~Recorder() {
  at::removeCallback(callback_);
  current_ = before_;
}

std::unique_ptr<at::ObserverContext> Recorder::starts(const at::RecordFunction& function) {
  if (current_ != nullptr && function.operator_name()) ++current_->depth_;
  return nullptr;
}

void Recorder::ends(const at::RecordFunction& function, at::ObserverContext*) {
  if (current_ == nullptr || !function.operator_name()) return;
  if (--current_->depth_ > 0 || current_->own_ > 0) return;
  for (const auto& output : function.outputs()) {
    if (output.isTensor()) current_->note_foreign(output.toTensor(), function.name());
    if (!output.isTensorList()) continue;
    for (const at::Tensor& tensor : output.toTensorList())
      current_->note_foreign(tensor, function.name());
  }
}

std::string Recorder::path() const {
  std::string path;
  for (const auto& slot : path_) path += (path.empty() ? "" : ".") + slot;
  return path;
}

void Recorder::note_foreign(const at::Tensor& tensor, std::string_view operation) {
  if (!tensor.defined() || names_.contains(tensor.unsafeGetTensorImpl())) return;
  const auto version = version_of(tensor);
  const auto known = known_.find(tensor.unsafeGetTensorImpl());
  if (known != known_.end() && known->second.version == version) return;  // returned unchanged
  operation.remove_prefix(operation.rfind(':') + 1);
  known_.insert_or_assign(tensor.unsafeGetTensorImpl(),
                          Known{tensor, version, std::nullopt, std::string(operation), path()});
}

size_t Recorder::add(Graph::Value value, const at::Tensor& tensor) {
  const size_t index = graph_.values.size();
  graph_.values.push_back(std::move(value));
  known_.insert_or_assign(tensor.unsafeGetTensorImpl(),
                          Known{tensor, version_of(tensor), index, {}, {}});
  return index;
}

/// A tensor that shares memory with a value of the pass would be recorded as a constant.
void Recorder::check_no_alias(const at::Tensor& tensor) const {
  if (names_.contains(tensor.unsafeGetTensorImpl())) return;
  for (const auto& [impl, known] : known_) {
    const bool of_the_pass = !known.value || *known.value == graph_.input ||
                             graph_.values[*known.value].producer.has_value();
    if (of_the_pass && tensor.is_alias_of(known.tensor))
      throw UserError(text_of_layer(path()) +
                      ": a tensor that it reads is the data() of another one, "
                      "which a network's graph cannot follow");
  }
}

size_t Recorder::value_of(const at::Tensor& tensor) {
  const auto found = known_.find(tensor.unsafeGetTensorImpl());
  if (found == known_.end()) {
    check_no_alias(tensor);
    auto value = described(tensor);
    value.constant = tensor.detach();
    if (const auto name = names_.find(tensor.unsafeGetTensorImpl()); name != names_.end())
      value.name = name->second;
    return add(std::move(value), tensor);
  }
  const Known& known = found->second;
  if (!known.value)
    throw UserError(text_of_layer(known.layer) + ": at::" + known.foreign +
                    " is not one of the operations that a network's graph can have "
                    "(nn/network/operations.h lists them)" +
                    advice(known.foreign));
  if (known.version != version_of(tensor))
    throw UserError(text_of_layer(path()) +
                    ": a tensor that it reads was overwritten through another view of it");
  return *known.value;
}

Graph::Operation Recorder::started(OperationKind kind, OperationOptions options,
                                   at::ArrayRef<const at::Tensor*> inputs) {
  Graph::Operation operation{
      .kind = kind, .layer = path(), .options = std::move(options), .inputs = {}, .output = 0};
  for (const auto* input : inputs)
    operation.inputs.push_back(input->defined() ? std::optional(value_of(*input)) : std::nullopt);
  while (!operation.inputs.empty() && !operation.inputs.back()) operation.inputs.pop_back();
  return operation;
}

void Recorder::ended(Graph::Operation operation, const at::Tensor& output) {
  auto value = described(output);
  value.producer = graph_.operations.size();
  operation.output = add(std::move(value), output);
  graph_.operations.push_back(std::move(operation));
}

Graph Recorder::graph_to(const at::Tensor& output) {
  graph_.output = value_of(output);
  return std::move(graph_);
}

}  // namespace composer
