#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "nn/network/norm_call.h"
#include "nn/network/norm_runs.h"
#include "nn/network/norm_simd.h"

namespace composer {
namespace {

/// Rows of a statistics tensor [2, C].
enum Statistic : int64_t { mean, inverse_deviation, statistics };
/// Rows of a tensor [2, C]: the value before the residual and the activation is input * scale +
/// shift.
enum Line : int64_t { scale, shift, line };

const float* row(const at::Tensor& table, int64_t i) {
  return table.const_data_ptr<float>() + i * table.size(1);
}

const std::byte* memory_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<const std::byte*>(tensor.const_data_ptr()) : nullptr;
}
std::byte* mutable_memory_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<std::byte*>(tensor.mutable_data_ptr()) : nullptr;
}

const float* parameters_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

void move(float& running, double momentum, double value) {
  running = static_cast<float>(momentum * value + (1 - momentum) * running);
}

/// Statistics of each channel. squares: sums of squared distances from the mean, not below 0.
struct Moments {
  std::vector<double> mean, squares;
};

/// One thread's part of batch_moments(). Values are summed by their distance from `centre`, the
/// mean of the first sixteenth of the run's rows. The squared distance between that mean and the
/// run's mean is at most 16 variances, so their difference loses at most one digit.
class MomentsOfRuns {
 public:
  enum Kind : int64_t { centre, sum, squares, kinds };

  MomentsOfRuns(const NormRuns& runs, const at::Tensor& images, NormSums& sums)
      : runs_(runs),
        images_(static_cast<const std::byte*>(images.const_data_ptr())),
        sums_(sums),
        zeros_(static_cast<size_t>(runs.width())),
        sum_(zeros_.size()),
        squares_(zeros_.size()) {}

  void operator()(const NormRun& run) {
    const auto centres = sums_.of(run, centre);
    find_centres(run, centres);
    const float* const around = columns_.of(centres.data(), run);
    for_rows(run, [&](const NormRows& rows, int64_t begin) {
      norm_moments(rows, {runs_.at(images_, begin), around, sum_.data(), squares_.data()});
      const auto width = static_cast<size_t>(rows.width);
      add_columns({sum_.data(), width}, run.repeated, sums_.of(run, sum));
      add_columns({squares_.data(), width}, run.repeated, sums_.of(run, squares));
    });
  }

 private:
  void find_centres(const NormRun& run, std::span<float> centres) {
    auto first = run.rows;
    if (first.rows == 0) first.width = run.rest;
    first.rows = std::max<int64_t>(first.rows / 16, 1);
    norm_moments(first,
                 {runs_.at(images_, run.begin), zeros_.data(), sum_.data(), squares_.data()});
    add_columns({sum_.data(), static_cast<size_t>(first.width)}, run.repeated, centres);
    const auto values = static_cast<float>(first.rows * first.width / run.channels);
    for (auto& mean : centres) mean /= values;
  }

  const NormRuns& runs_;
  const std::byte* images_;
  NormSums& sums_;
  std::vector<float> zeros_, sum_, squares_;
  NormColumns columns_;
};

/// One pass over the images' memory, accurate also where the mean is large compared with the
/// deviation. Joins the parts by the method of Chan, Golub and LeVeque 1979.
Moments batch_moments(const NormRuns& runs, const at::Tensor& images) {
  using enum MomentsOfRuns::Kind;
  NormSums sums(runs, kinds);
  runs.for_each(/*last_first=*/false, [&] { return MomentsOfRuns(runs, images, sums); });
  const auto channels = static_cast<size_t>(runs.channels());
  Moments all{std::vector<double>(channels), std::vector<double>(channels)};
  at::parallel_for(0, runs.channels(), norm_channels_a_thread, [&](int64_t begin, int64_t end) {
    double* const mean = all.mean.data();
    double* const summed = all.squares.data();
    double before = 0;
    for (int64_t part = 0; part < runs.parts(); ++part) {
      const auto values = static_cast<double>(runs.values(part));
      const double one = 1 / values, share = values / (before + values);
      const float *const centres = sums.of(part, centre), *const distances = sums.of(part, sum),
                         *const of_part = sums.of(part, squares);
      for (int64_t c = begin; c < end; ++c) {
        const double from_centre = distances[c] * one;
        const double apart = centres[c] + from_centre - mean[c];
        summed[c] += of_part[c] - distances[c] * from_centre + apart * apart * (before * share);
        mean[c] += apart * share;
      }
      before += values;
    }
    for (int64_t c = begin; c < end; ++c) summed[c] = summed[c] < 0 ? 0 : summed[c];
  });
  return all;
}

/// The moments that the norm uses. In training these are the batch's, and the running statistics
/// are updated.
Moments moments_for(const NormRuns& runs, const NormCall& call) {
  auto* const running_mean = call.running_mean.mutable_data_ptr<float>();
  auto* const running_var = call.running_var.mutable_data_ptr<float>();
  const auto values = static_cast<double>(runs.values_a_channel());
  if (!call.options.training) {
    Moments moments{{running_mean, running_mean + runs.channels()},
                    {running_var, running_var + runs.channels()}};
    for (auto& sum : moments.squares) sum *= values;
    return moments;
  }
  auto moments = batch_moments(runs, call.input);
  for (size_t c = 0; c < moments.mean.size(); ++c) {
    move(running_mean[c], call.options.momentum, moments.mean[c]);
    move(running_var[c], call.options.momentum, moments.squares[c] / (values - 1));
  }
  return moments;
}

at::Tensor statistics_for(const NormRuns& runs, const NormCall& call) {
  const auto moments = moments_for(runs, call);
  const auto values = static_cast<double>(runs.values_a_channel());
  const auto table = at::empty({statistics, runs.channels()}, at::kFloat);
  auto numbers = table.accessor<float, 2>();
  for (int64_t c = 0; c < runs.channels(); ++c) {
    const auto i = static_cast<size_t>(c);
    numbers[mean][c] = static_cast<float>(moments.mean[i]);
    numbers[inverse_deviation][c] =
        static_cast<float>(1 / std::sqrt(moments.squares[i] / values + call.options.eps));
  }
  return table;
}

/// Gives the same bits in all passes.
at::Tensor line_of(const at::Tensor& table, const at::Tensor& weight, const at::Tensor& bias) {
  const auto numbers = table.accessor<float, 2>();
  const auto *const weights = parameters_of(weight), *const biases = parameters_of(bias);
  const auto lines = at::empty({line, table.size(1)}, at::kFloat);
  auto to = lines.accessor<float, 2>();
  for (int64_t c = 0; c < table.size(1); ++c) {
    const float factor = weights == nullptr ? numbers[inverse_deviation][c]
                                            : weights[c] * numbers[inverse_deviation][c];
    const double offset = biases == nullptr ? 0 : biases[c];
    to[scale][c] = factor;
    to[shift][c] = static_cast<float>(offset - double{numbers[mean][c]} * factor);
  }
  return lines;
}

/// activation(input * scale + shift + residual). last_first: reads first the part of the input that
/// was read last.
at::Tensor applied(const NormRuns& runs, const at::Tensor& input, const at::Tensor& residual,
                   const at::Tensor& lines, Activation activation, bool last_first) {
  auto output = at::empty_like(input, at::MemoryFormat::Preserve);
  const auto *const from = memory_of(input), *const rest = memory_of(residual);
  auto* const to = mutable_memory_of(output);
  runs.for_each(last_first, [&] {
    return [&, parameters = NormParameters<2>({row(lines, scale), row(lines, shift)})](
               const NormRun& run) mutable {
      const auto& all = parameters.of(run);
      for_rows(run, [&](const NormRows& rows, int64_t at) {
        norm_apply(rows, activation,
                   {runs.at(from, at), runs.at(rest, at), all[0], all[1], runs.at(to, at)});
      });
    };
  });
  return output;
}

NormSlope slope_of(const NormBackward& call) {
  switch (call.activation) {
    case Activation::none:
      return NormSlope::one;
    case Activation::relu:
      return call.with_residual ? NormSlope::relu_of_rest : NormSlope::relu;
    case Activation::gelu:
      return call.with_residual ? NormSlope::gelu_of_rest : NormSlope::gelu;
  }
  return NormSlope::one;
}

/// One backward pass: the sums over each channel, then the input's gradient. Both need the gradient
/// before the activation. It is stored as the residual's gradient, where that is asked for; else in
/// the memory of `added`; else in that of the input's gradient, where it is costly to compute; else
/// it is computed twice.
class Backward {
 public:
  explicit Backward(const NormBackward& call)
      : call_(call),
        runs_(call.gradient),
        slope_(slope_of(call)),
        sums_(runs_, kinds),
        line_(line_of(call.statistics, call.weight, call.bias)) {}

  NormGradients operator()() {
    if (call_.for_input) found_.input = at::empty_like(call_.gradient, at::MemoryFormat::Preserve);
    const bool gelu = call_.activation == Activation::gelu;
    if (call_.added.defined())
      sloped_ = call_.added;
    else if (slope_ != NormSlope::one && call_.for_residual)
      sloped_ = at::empty_like(call_.gradient, at::MemoryFormat::Preserve);
    else if (gelu && call_.for_input)
      sloped_ = found_.input;
    if (call_.for_residual) found_.residual = sloped_.defined() ? sloped_ : call_.gradient;
    const bool sums = call_.for_weight || call_.for_bias || (call_.training && call_.for_input);
    if (sums || sloped_.defined()) sum();
    if (sums) take_sums();
    if (call_.for_input) move_to_input();
    return found_;
  }

 private:
  enum Kind : int64_t { gradients, by_distance, kinds };

  const at::Tensor& rest() const {
    return call_.activation == Activation::relu ? call_.output : call_.residual;
  }

  void sum() {
    const auto *const gradient = memory_of(call_.gradient), *const added = memory_of(call_.added),
                      *const input = memory_of(call_.input), *const rest = memory_of(this->rest());
    auto* const sloped = mutable_memory_of(sloped_);
    runs_.for_each(/*last_first=*/false, [&] {
      return [&, sum = std::vector<float>(static_cast<size_t>(runs_.width())),
              products = std::vector<float>(static_cast<size_t>(runs_.width())),
              parameters =
                  NormParameters<3>({row(line_, scale), row(line_, shift),
                                     row(call_.statistics, mean)})](const NormRun& run) mutable {
        const auto& all = parameters.of(run);
        for_rows(run, [&](const NormRows& rows, int64_t at) {
          norm_gradient_sums(
              rows, slope_,
              {runs_.at(gradient, at), runs_.at(added, at), runs_.at(input, at), runs_.at(rest, at),
               all[0], all[1], all[2], sum.data(), products.data(), runs_.at(sloped, at)});
          const auto width = static_cast<size_t>(rows.width);
          add_columns({sum.data(), width}, run.repeated, sums_.of(run, gradients));
          add_columns({products.data(), width}, run.repeated, sums_.of(run, by_distance));
        });
      };
    });
  }

  void take_sums() {
    const auto sums = sums_.total(gradients), products = sums_.total(by_distance);
    const int64_t channels = runs_.channels();
    const auto values = static_cast<double>(runs_.values_a_channel());
    const auto *const inverse = row(call_.statistics, inverse_deviation), *const factor =
                                                                              row(line_, scale);
    const auto make = [&](const auto& value) {
      auto numbers = at::empty({channels}, at::kFloat);
      for (int64_t c = 0; c < channels; ++c)
        numbers.mutable_data_ptr<float>()[c] = static_cast<float>(value(static_cast<size_t>(c)));
      return numbers;
    };
    if (call_.for_weight) found_.weight = make([&](size_t c) { return products[c] * inverse[c]; });
    if (call_.for_bias) found_.bias = make([&](size_t c) { return sums[c]; });
    if (!call_.training || !call_.for_input) return;
    tilt_ = make([&](size_t c) {
      return -factor[c] * double{inverse[c]} * inverse[c] * products[c] / values;
    });
    offset_ = make([&](size_t c) { return -factor[c] * sums[c] / values; });
  }

  void move_to_input() {
    const auto& from = sloped_.defined() ? sloped_ : call_.gradient;
    const auto slope = sloped_.defined() ? NormSlope::one : slope_;
    const auto *const gradient = memory_of(from), *const input = memory_of(call_.input),
                      *const rest = memory_of(this->rest());
    auto* const to = mutable_memory_of(found_.input);
    runs_.for_each(/*last_first=*/true, [&] {
      return [&, parameters = NormParameters<5>(
                     {row(line_, scale), row(line_, shift), row(call_.statistics, mean),
                      parameters_of(tilt_), parameters_of(offset_)})](const NormRun& run) mutable {
        const auto& all = parameters.of(run);
        for_rows(run, [&](const NormRows& rows, int64_t at) {
          norm_gradient_apply(rows, slope,
                              {runs_.at(gradient, at), runs_.at(input, at), runs_.at(rest, at),
                               all[0], all[1], all[2], all[3], all[4], runs_.at(to, at)});
        });
      };
    });
  }

  const NormBackward& call_;
  const NormRuns runs_;
  const NormSlope slope_;
  NormSums sums_;
  const at::Tensor line_;
  at::Tensor sloped_;         ///< gradient before the activation, where it is stored
  at::Tensor tilt_, offset_;  ///< parameters of NormGradientApply, in training
  NormGradients found_;
};

class CpuNorm final : public NormKernels {
 public:
  std::string refusal(const NormCall& call) const override {
    const auto& input = call.input;
    if (input.layout() != at::kStrided || input.dim() != 4 || input.numel() == 0 ||
        !(input.is_contiguous() || input.is_contiguous(at::MemoryFormat::ChannelsLast)))
      return "images that are not [N, C, H, W] without gaps";
    if (input.scalar_type() != at::kFloat && input.scalar_type() != at::kBFloat16)
      return toString(input.scalar_type());
    if (!call.running_mean.defined() || !call.running_var.defined()) return "no running statistics";
    if (call.has_residual_norm() || call.pool) return "more than a norm on a CPU";
    for (const auto* parameter : {&call.weight, &call.bias, &call.running_mean, &call.running_var})
      if (parameter->defined() &&
          (parameter->scalar_type() != at::kFloat || !parameter->is_cpu() ||
           !parameter->is_contiguous() || parameter->sizes() != input.sizes().slice(1, 1)))
        return "parameters that are not float32 [C]";
    return "";
  }

  NormOutput forward(const NormCall& call) const override {
    const NormRuns runs(call.input);
    const auto table = statistics_for(runs, call);
    return {applied(runs, call.input, call.residual, line_of(table, call.weight, call.bias),
                    call.activation, /*last_first=*/call.options.training),
            table};
  }

  NormGradients backward(const NormBackward& call) const override { return Backward(call)(); }
};

}  // namespace

const NormKernels& cpu_norm_kernels() {
  static const CpuNorm kernels;
  return kernels;
}

at::Tensor cpu_norm_output(const at::Tensor& input, const at::Tensor& statistics,
                           const at::Tensor& weight, const at::Tensor& bias,
                           Activation activation) {
  return applied(NormRuns(input), input, {}, line_of(statistics, weight, bias), activation,
                 /*last_first=*/false);
}

}  // namespace composer
