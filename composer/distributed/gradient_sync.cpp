#include "composer/distributed/gradient_sync.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "composer/clock.h"
#include "composer/distributed/process_group.h"
#include "composer/error.h"

namespace composer {
namespace {

/// Adds a bucket up over the ranks, in another type where asked.
class SumHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  SumHook(const c10::intrusive_ptr<c10d::ProcessGroup>& group, at::ScalarType dtype,
          std::shared_ptr<SentGradients> sent)
      : CppCommHookInterface(group), dtype_(dtype), sent_(std::move(sent)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    RECORD_USER_SCOPE("gradient sum");
    auto buffer = bucket.getBufferRef();
    const bool as_is = dtype_ == at::kFloat || buffer.scalar_type() == dtype_;
    std::vector<at::Tensor> sent{as_is ? buffer : buffer.to(dtype_)};
    sent_->bytes += static_cast<int64_t>(sent[0].nbytes());
    sent_->last = steady_seconds();
    c10::intrusive_ptr<c10::ivalue::Future> sum;
    with_peers([&] { sum = state_->allreduce(sent)->getFuture(); });
    const auto take = [buffer, narrow = sent[0], as_is](c10::ivalue::Future& done) {
      with_peers([&] { done.value(); });
      if (!as_is) buffer.copy_(narrow);
      return c10::IValue(std::vector<at::Tensor>{buffer});
    };
    return sum->then(take, sum->elementType());
  }

 private:
  at::ScalarType dtype_;
  std::shared_ptr<SentGradients> sent_;
};

constexpr size_t first_bucket_bytes = 1 << 20;

}  // namespace

struct GradientSync::Buckets {
  std::vector<at::Tensor> parameters;
  std::shared_ptr<ProcessGroupCommunicator> communicator;
  std::unique_ptr<c10d::Reducer> reducer;

  Buckets(const std::vector<at::Tensor>& trained, const Ranks& ranks,
          const GradientSyncOptions& options, const std::shared_ptr<SentGradients>& sent)
      : parameters(trained),
        communicator(std::dynamic_pointer_cast<ProcessGroupCommunicator>(ranks.communicator())) {
    const auto group = communicator->group();
    const auto bucket_bytes = static_cast<size_t>(options.bucket_mb * (1 << 20));
    const auto first_bytes = std::min(first_bucket_bytes, bucket_bytes);
    // The last layers' gradients are there first.
    const std::vector<at::Tensor> reversed(parameters.rbegin(), parameters.rend());
    auto buckets =
        std::get<0>(c10d::compute_bucket_assignment_by_size(reversed, {first_bytes, bucket_bytes}));
    for (auto& bucket : buckets)
      for (auto& index : bucket) index = parameters.size() - 1 - index;
    reducer = std::make_unique<c10d::Reducer>(
        parameters, std::move(buckets), group, std::vector<bool>(parameters.size(), false),
        static_cast<int64_t>(bucket_bytes), options.find_unused, /*gradient_as_bucket_view=*/true,
        std::unordered_map<size_t, std::string>(), static_cast<int64_t>(first_bytes),
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
        std::vector<int64_t>());
    reducer->register_comm_hook(std::make_unique<SumHook>(group, options.dtype, sent));
  }
  ~Buckets() { reducer->remove_autograd_hooks(); }
};

RunError took_no_part() {
  return RunError(
      "trained parameters took no part in the backward pass, so that their gradients were not "
      "summed over the ranks; freeze them, or let the algorithm that leaves them out say so "
      "(leaves_out_parameters)");
}

GradientSync::GradientSync(Ranks ranks, GradientSyncOptions options)
    : ranks_(std::move(ranks)), options_(options) {}

GradientSync::~GradientSync() = default;

void GradientSync::before_backward(const std::vector<at::Tensor>& parameters,
                                   const at::Tensor& loss, bool last) {
  if (ranks_.alone()) return;
  const auto same = [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); };
  if (!buckets_ || !std::ranges::equal(buckets_->parameters, parameters, same)) {
    buckets_.reset();
    buckets_ = std::make_unique<Buckets>(parameters, ranks_, options_, sent_);
  }
  last_ = last;
  if (last) buckets_->reducer->prepare_for_backward({loss});
}

void GradientSync::after_backward() {
  if (!buckets_ || !last_) return;
  try {
    buckets_->reducer->check_finalized();
  } catch (const c10::Error&) {
    throw took_no_part();
  }
  buckets_->communicator->add_wait(steady_seconds() - sent_->last);
  // It would keep the order in which gradients came, step after step, to make buckets of it.
  buckets_->reducer->reset_state();
}

}  // namespace composer
