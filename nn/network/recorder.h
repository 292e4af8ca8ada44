// What the functions of namespace op report to while a pass is recorded on their thread.
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

/// Listens to its thread while it lives. Tensors are known by their TensorImpl, which it keeps; an
/// operation in place makes a new value of the same tensor. What LibTorch computes outside of our
/// operations is noted too, to tell of it when it enters one of them.
class Recorder {
 public:
  /// That of the thread, or null.
  static Recorder* current() { return current_; }

  /// Names constants as parameters and buffers of `model`.
  Recorder(const torch::nn::Module& model, const at::Tensor& input);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// To be called before the operation computes, which may overwrite its inputs. UserError where an
  /// input comes from an operation that is not ours.
  Graph::Operation started(OperationKind kind, OperationOptions options,
                           at::ArrayRef<const at::Tensor*> inputs);
  void ended(Graph::Operation operation, const at::Tensor& output);
  /// Takes the tensor as one that was made before the pass.
  void forget(const at::Tensor& tensor) { known_.erase(tensor.unsafeGetTensorImpl()); }
  /// What was recorded. UserError as started().
  Graph graph_to(const at::Tensor& output);

  /// What runs in its scope belongs to a slot.
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

  /// What LibTorch computes in its scope is part of one of our operations.
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
    int64_t version;              ///< what overwrites it, through whatever view, counts it up
    std::optional<size_t> value;  ///< none: it comes from `foreign`, which ran in `layer`
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
  int depth_ = 0;  ///< of LibTorch's operations within each other
  std::vector<std::string> path_;
  std::unordered_map<const at::TensorImpl*, std::string> names_;
  std::unordered_map<const at::TensorImpl*, Known> known_;
  Graph graph_;
};

}  // namespace composer
