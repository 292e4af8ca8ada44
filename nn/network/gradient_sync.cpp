#include "nn/network/gradient_sync.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "nn/distributed/process_group.h"

namespace composer {
namespace {

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Begins to sum a bucket over the ranks, converted to `dtype`.
c10::intrusive_ptr<c10::ivalue::Future> begin_sum(const GroupPtr& group, const at::Tensor& buffer,
                                                  at::ScalarType dtype, SentGradients& all_sent) {
  RECORD_USER_SCOPE("gradient sum");
  const bool as_is = dtype == at::kFloat || buffer.scalar_type() == dtype;
  std::vector<at::Tensor> sent{as_is ? buffer : buffer.to(dtype)};
  all_sent.bytes += static_cast<int64_t>(sent[0].nbytes());
  all_sent.last = steady_seconds();
  c10::intrusive_ptr<c10::ivalue::Future> sum;
  with_other_ranks([&] { sum = group->allreduce(sent)->getFuture(); });
  const auto take = [buffer, narrow = sent[0], as_is](c10::ivalue::Future& done) {
    with_other_ranks([&] { done.value(); });
    if (!as_is) buffer.copy_(narrow);
    return c10::IValue(std::vector<at::Tensor>{buffer});
  };
  return sum->then(take, sum->elementType());
}

class SumHook : public c10d::CppCommHookInterface<GroupPtr> {
 public:
  SumHook(const GroupPtr& group, at::ScalarType dtype, std::shared_ptr<SentGradients> sent)
      : CppCommHookInterface(group), dtype_(dtype), sent_(std::move(sent)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    return begin_sum(state_, bucket.getBufferRef(), dtype_, *sent_);
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
  std::vector<std::vector<size_t>> indices;  ///< indices of each bucket's parameters
  std::unique_ptr<c10d::Reducer> reducer;    ///< null with when_asked

  Buckets(const std::vector<at::Tensor>& trained, const Ranks& ranks,
          const GradientSyncOptions& options, const std::shared_ptr<SentGradients>& sent)
      : parameters(trained),
        communicator(std::dynamic_pointer_cast<ProcessGroupCommunicator>(ranks.communicator())) {
    const auto group = communicator->group();
    const auto bucket_bytes = static_cast<size_t>(options.bucket_mb * (1 << 20));
    const auto first_bytes = std::min(first_bucket_bytes, bucket_bytes);
    // The last layers' gradients are ready first.
    const std::vector<at::Tensor> reversed(parameters.rbegin(), parameters.rend());
    indices =
        std::get<0>(c10d::compute_bucket_assignment_by_size(reversed, {first_bytes, bucket_bytes}));
    for (auto& bucket : indices)
      for (auto& index : bucket) index = parameters.size() - 1 - index;
    if (options.when_asked) return;
    reducer = std::make_unique<c10d::Reducer>(
        parameters, indices, group, std::vector<bool>(parameters.size(), false),
        static_cast<int64_t>(bucket_bytes), options.find_unused, /*gradient_as_bucket_view=*/true,
        std::unordered_map<size_t, std::string>(), static_cast<int64_t>(first_bytes),
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
        std::vector<int64_t>());
    reducer->register_comm_hook(std::make_unique<SumHook>(group, options.dtype, sent));
  }
  ~Buckets() {
    if (reducer) reducer->remove_autograd_hooks();
  }
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

void GradientSync::make_buckets(const std::vector<at::Tensor>& parameters) {
  const auto same = [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); };
  if (!buckets_ || !std::ranges::equal(buckets_->parameters, parameters, same)) {
    buckets_.reset();
    buckets_ = std::make_unique<Buckets>(parameters, ranks_, options_, sent_);
  }
}

void GradientSync::before_backward(const std::vector<at::Tensor>& parameters,
                                   const at::Tensor& loss, bool last) {
  if (ranks_.alone() || options_.when_asked) return;
  make_buckets(parameters);
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
  // The reducer would otherwise collect the order of gradients, step after step, to rebuild its
  // buckets.
  buckets_->reducer->reset_state();
}

std::vector<bool> GradientSync::taking_part(const std::vector<at::Tensor>& parameters) const {
  auto count = at::zeros({std::ssize(parameters)}, at::kLong);
  auto* const counts = count.mutable_data_ptr<int64_t>();
  for (size_t i = 0; i < parameters.size(); ++i) counts[i] = parameters[i].grad().defined() ? 1 : 0;
  if (options_.find_unused) ranks_.sum(count);
  return std::vector<bool>(counts, counts + parameters.size());
}

void GradientSync::sum(const std::vector<at::Tensor>& parameters) {
  if (ranks_.alone() || !options_.when_asked) return;
  const at::NoGradGuard no_grad;
  make_buckets(parameters);
  const auto taken = taking_part(parameters);
  if (!options_.find_unused && std::ranges::count(taken, false) > 0) throw took_no_part();
  const auto group = buckets_->communicator->group();
  std::vector<at::Tensor> sums(parameters.size());  // views of the buckets, like the Reducer's
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> pending;
  for (const auto& bucket : buckets_->indices) {
    int64_t size = 0;
    for (const auto index : bucket) size += parameters[index].numel();
    const auto buffer = at::zeros({size}, parameters[bucket[0]].options());
    int64_t begin = 0;
    for (const auto index : bucket) {
      const auto& parameter = parameters[index];
      sums[index] = parameter.is_non_overlapping_and_dense()
                        ? buffer.as_strided(parameter.sizes(), parameter.strides(), begin)
                        : buffer.narrow(0, begin, parameter.numel()).view(parameter.sizes());
      if (parameter.grad().defined()) sums[index].copy_(parameter.grad());
      parameter.mutable_grad().reset();  // there may be no memory for two copies of all gradients
      begin += parameter.numel();
    }
    pending.push_back(begin_sum(group, buffer, options_.dtype, *sent_));
  }
  for (const auto& sum : pending) sum->waitAndThrow();
  buckets_->communicator->add_wait(steady_seconds() - sent_->last);
  for (size_t i = 0; i < parameters.size(); ++i)
    if (taken[i]) parameters[i].mutable_grad() = sums[i];
}

}  // namespace composer
