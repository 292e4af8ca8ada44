// Records a pass: the functions of namespace op on its thread report to it.
#pragma once

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nn/network/graph.h"

namespace composer {

/// Records its thread while it lives. It knows tensors by their TensorImpl, which it keeps alive;
/// an in-place operation makes a new value of the same tensor. It also notes tensors that LibTorch
/// computes outside of namespace op, for the error when one of them is an input.
class Recorder {
 public:
  /// The recorder of this thread, or null.
  static Recorder* current() { return current_; }

  /// Constants get the names of the parameters and buffers of `model`.
  Recorder(const torch::nn::Module& model, const at::Tensor& input);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Called before the operation computes, since it may overwrite its inputs. UserError if an
  /// input comes from an operation outside of namespace op.
  Graph::Operation started(OperationKind kind, OperationOptions options,
                           at::ArrayRef<const at::Tensor*> inputs);
  void ended(Graph::Operation operation, const at::Tensor& output);
  /// Treats the tensor as one that was made before the pass.
  void forget(const at::Tensor& tensor) { known_.erase(tensor.unsafeGetTensorImpl()); }
  /// The recorded graph. UserError as started().
  Graph graph_to(const at::Tensor& output);

  /// Operations in its scope belong to the slot.
  class Inside {
   public:
    explicit Inside(const std::string& slot) : recorder_(current_) {
      if (recorder_ != nullptr) recorder_->path_.push_back(slot);
    }
    ~Inside() {
      if (recorder_ != nullptr) recorder_->path_.pop_back();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Recorder* recorder_;
  };

  /// LibTorch's operations in its scope are part of one function of namespace op.
  class Own {
   public:
    explicit Own(Recorder& recorder) : recorder_(recorder) { ++recorder_.own_; }
    ~Own() { --recorder_.own_; }
    Own(const Own&) = delete;
    Own& operator=(const Own&) = delete;

   private:
    Recorder& recorder_;
  };

 private:
  struct Known {
    at::Tensor tensor;
    int64_t version;  ///< counts writes to the tensor, also through views
    /// Nothing: it comes from LibTorch's operation `foreign`, which ran in `layer`.
    std::optional<size_t> value;
    std::string foreign, layer;
  };

  static std::unique_ptr<at::ObserverContext> starts(const at::RecordFunction& function);
  static void ends(const at::RecordFunction& function, at::ObserverContext* context);

  std::string path() const;
  void note_foreign(const at::Tensor& tensor, std::string_view operation);
  size_t add(Graph::Value value, const at::Tensor& tensor);
  void check_no_alias(const at::Tensor& tensor) const;
  size_t value_of(const at::Tensor& tensor);

  inline static constinit thread_local Recorder* current_ = nullptr;

  Recorder* before_;
  at::CallbackHandle callback_;
  int own_ = 0;
  int depth_ = 0;  ///< nesting of LibTorch's operators
  std::vector<std::string> path_;
  std::unordered_map<const at::TensorImpl*, std::string> names_;
  std::unordered_map<const at::TensorImpl*, Known> known_;
  Graph graph_;
};

}  // namespace composer
