#include "nn/network/synced_norm.h"

#include <tuple>

#include "nn/network/autograd_node.h"

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Mean and 1 / sqrt(variance + eps) of each channel over all ranks, [C]. counts: values per
/// channel of each rank, [ranks], in any order.
struct Statistics {
  at::Tensor mean, inverse_deviation, counts;
};

struct RunningStatistics {
  at::Tensor mean, variance;
};

/// The type of the statistics.
at::ScalarType statistics_type(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

int64_t values_a_channel(const at::Tensor& input) { return input.numel() / input.size(1); }

at::Tensor per_channel(const at::Tensor& values) { return values.view({1, -1, 1, 1}); }

/// Gathers two vectors [C] and a number of each rank: [ranks, C] twice and [ranks].
std::tuple<at::Tensor, at::Tensor, at::Tensor> gathered(const at::Tensor& a, const at::Tensor& b,
                                                        int64_t number, const Ranks& ranks) {
  const auto count = at::full({1}, number, a.options());
  const auto all = ranks.gather(at::cat({a, b, count}));
  const int64_t channels = a.size(0);
  return {all.narrow(1, 0, channels), all.narrow(1, channels, channels),
          all.select(1, 2 * channels)};
}

// Mean and variance of each rank keep their digits where the mean is large; sums of squares would
// not.
Statistics statistics_on_cpu(const at::Tensor& input, const RunningStatistics& running,
                             const BatchNormOptions& options, const Ranks& ranks) {
  const auto type = input.options().dtype(statistics_type(input));
  const auto unused = at::zeros({input.size(1)}, type), unused_too = at::zeros_like(unused);
  const auto [own_mean, own_variance] =
      input.numel() == 0 ? std::tuple(unused, unused_too)
                         : at::batch_norm_update_stats(input, unused, unused_too, /*momentum=*/0);
  const auto [means, variances, counts] = gathered(
      own_mean.to(at::kDouble), own_variance.to(at::kDouble), values_a_channel(input), ranks);
  const auto total = counts.sum();
  const auto shares = (counts / total).unsqueeze(1);
  const auto mean = (shares * means).sum(0);
  const auto variance = (shares * (variances + (means - mean).square())).sum(0);
  const auto move = [&](const at::Tensor& average, const at::Tensor& value) {
    average.lerp_(value.to(average.scalar_type()), options.momentum);
  };
  move(running.mean, mean);
  move(running.variance, variance * (total / (total - 1)));
  const auto inverse_deviation = (variance + options.eps).rsqrt();
  return {mean.to(type), inverse_deviation.to(type), counts};
}

Statistics statistics_on_cuda(const at::Tensor& input, const RunningStatistics& running,
                              const BatchNormOptions& options, const Ranks& ranks) {
  const auto none = at::ones({input.size(1)}, input.options().dtype(statistics_type(input)));
  const auto [own_mean, own_inverse] =
      input.numel() == 0 ? std::tuple(none, none) : at::batch_norm_stats(input, options.eps);
  const auto all = gathered(own_mean, own_inverse, values_a_channel(input), ranks);
  // ATen's kernel divides by the count of the ranks so far. The first rank may have no rows of an
  // image; the last has the most.
  const auto from_last = [](const at::Tensor& of_ranks) { return of_ranks.flip(0); };
  const auto means = from_last(std::get<0>(all)), inverses = from_last(std::get<1>(all)),
             counts = from_last(std::get<2>(all));
  const auto [mean, inverse] = at::batch_norm_gather_stats_with_counts(
      input, means, inverses, running.mean, running.variance, options.momentum, options.eps,
      counts.to(running.mean.scalar_type()));
  return {mean, inverse, counts};
}

/// (input - mean) * inverse_deviation * weight + bias, in the input's type.
at::Tensor normalized_by(const Statistics& statistics, const at::Tensor& input,
                         const at::Tensor& weight, const at::Tensor& bias) {
  if (input.numel() == 0) return input.clone();
  if (input.is_cuda())
    return at::batch_norm_elemt(input, weight, bias, statistics.mean, statistics.inverse_deviation,
                                /*eps=*/0);
  const auto variance = statistics.inverse_deviation.pow(-2);
  return std::get<0>(at::native_batch_norm(input, weight, bias, statistics.mean, variance,
                                           /*training=*/false, /*momentum=*/0, /*eps=*/0));
}

/// Sums over this rank's values, with d the gradient of the output: of d, of d * (input - mean),
/// and the gradients of weight and bias. All [C].
struct Sums {
  at::Tensor gradient, gradient_by_distance, of_weight, of_bias;
};

Sums sums_of(const at::Tensor& gradient, const at::Tensor& input, const Statistics& statistics,
             const at::Tensor& weight) {
  const auto& [mean, inverse_deviation, counts] = statistics;
  if (input.numel() == 0) {
    const auto none = at::zeros_like(mean);
    return {none, none, none, none};
  }
  if (input.is_cuda()) {
    auto [sum, by_distance, of_weight, of_bias] = at::batch_norm_backward_reduce(
        gradient, input, mean, inverse_deviation, weight, true, true, true);
    return {sum, by_distance, of_weight, of_bias};
  }
  const auto [of_input, of_weight, of_bias] =
      at::native_batch_norm_backward(gradient, input, weight, {}, {}, mean, inverse_deviation,
                                     /*train=*/true, /*eps=*/0, {false, true, true});
  return {of_bias, of_weight / inverse_deviation, of_weight, of_bias};
}

/// sum, by_distance: summed over all ranks.
at::Tensor gradient_of_input(const at::Tensor& gradient, const at::Tensor& input,
                             const Statistics& statistics, const at::Tensor& weight,
                             const at::Tensor& sum, const at::Tensor& by_distance) {
  const auto& [mean, inverse_deviation, counts] = statistics;
  if (input.numel() == 0) return at::zeros_like(input);
  if (input.is_cuda())
    return at::batch_norm_backward_elemt(gradient, input, mean, inverse_deviation, weight, sum,
                                         by_distance, counts.to(at::kInt));
  const auto type = mean.scalar_type();
  const auto total = counts.sum().to(type);
  const auto scale = weight * inverse_deviation;
  const auto slope = -scale * inverse_deviation.square() * by_distance / total;
  return (input.to(type) - per_channel(mean))
      .mul_(per_channel(slope))
      .addcmul_(gradient.to(type), per_channel(scale))
      .sub_(per_channel(scale * sum / total))
      .to(input.scalar_type());
}

// The sum of the backward pass runs between GradientSync's buckets. Collectives match by the order
// of calls on each rank; autograd runs a graph in the same order on every rank, that in which the
// forward pass made its nodes.
struct SyncedBatchNorm : torch::autograd::Function<SyncedBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const RunningStatistics& running, const BatchNormOptions& options,
                            const Ranks& ranks) {
    const auto statistics = input.is_cuda() ? statistics_on_cuda(input, running, options, ranks)
                                            : statistics_on_cpu(input, running, options, ranks);
    context->save_for_backward(
        {input, weight, statistics.mean, statistics.inverse_deviation, statistics.counts});
    context->saved_data["ranks"] = held(ranks);
    const auto type = statistics.mean.scalar_type();
    return normalized_by(statistics, input, weight.to(type), bias.to(type));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto& input = saved[0];
    const Statistics statistics{saved[2], saved[3], saved[4]};
    const auto weight = saved[1].to(statistics.mean.scalar_type());
    const auto gradient = gradients[0].contiguous(input.suggest_memory_format());

    const auto own = sums_of(gradient, input, statistics, weight);
    const auto sums = at::stack({own.gradient, own.gradient_by_distance});
    held_in<Ranks>(*context, "ranks").sum(sums);
    const auto of_input = gradient_of_input(gradient, input, statistics, weight, sums[0], sums[1]);
    const auto parameter_type = saved[1].scalar_type();
    return {of_input, own.of_weight.to(parameter_type), own.of_bias.to(parameter_type), {}, {}, {}};
  }
};

}  // namespace

at::Tensor synced_batch_norm(const at::Tensor& input, const at::Tensor& weight,
                             const at::Tensor& bias, const at::Tensor& running_mean,
                             const at::Tensor& running_var, const BatchNormOptions& options,
                             const Ranks& ranks) {
  return SyncedBatchNorm::apply(input.contiguous(input.suggest_memory_format()), weight, bias,
                                RunningStatistics{running_mean, running_var}, options, ranks);
}

}  // namespace composer
