// What autograd keeps of a forward pass, as autograd itself tells.
#pragma once

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "nn/network/model.h"

namespace composer::test {

/// Asks to see each tensor that is saved on this process's threads while it lives; one at a time.
class SavedTensors {
 public:
  SavedTensors() {
    seen() = this;
    torch::autograd::set_default_engine_stub(engine);
  }
  ~SavedTensors() {
    seen() = nullptr;
    torch::autograd::set_default_engine_stub(torch::autograd::Engine::get_base_engine);
  }
  SavedTensors(const SavedTensors&) = delete;
  SavedTensors& operator=(const SavedTensors&) = delete;

  /// Of the memory that the saved tensors lie in, each once; without that of the model's parameters
  /// and buffers, and single numbers.
  int64_t bytes(const Model& model) const {
    std::unordered_map<const void*, int64_t> sizes;
    for (const auto& tensor : tensors_)
      if (tensor.dim() > 0)
        sizes[tensor.storage().data()] = static_cast<int64_t>(tensor.storage().nbytes());
    for (const auto& parameter : model.parameters()) sizes.erase(parameter.storage().data());
    for (const auto& buffer : model.buffers()) sizes.erase(buffer.storage().data());
    int64_t sum = 0;
    for (const auto& [memory, bytes] : sizes) sum += bytes;
    return sum;
  }

 private:
  struct Keep final : torch::autograd::SavedVariableHooks {
    void call_pack_hook(const at::Tensor& tensor) override {
      kept = tensor;
      if (seen() != nullptr) seen()->tensors_.push_back(tensor);
    }
    at::Tensor call_unpack_hook() override { return kept; }
    at::Tensor kept;
  };

  class Engine final : public torch::autograd::Engine {
   public:
    std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks()
        override {
      return std::make_unique<Keep>();
    }
  };

  static torch::autograd::Engine& engine() {
    static Engine engine;
    return engine;
  }
  static SavedTensors*& seen() {
    static SavedTensors* value = nullptr;
    return value;
  }

  std::vector<at::Tensor> tensors_;
};

/// Bytes that a training step on the images keeps for its backward pass.
inline int64_t saved_bytes(Model& model, const at::Tensor& images) {
  model.train();
  const SavedTensors saved;
  const auto logits = model.forward(images);
  return saved.bytes(model);
}

}  // namespace composer::test
