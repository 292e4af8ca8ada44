#include "composer/comparison/deviation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace composer {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double float_rounding = 1.2e-7;  // a bit more than the two halves of an ulp

double length_of(const at::Tensor& tensor) { return tensor.to(at::kDouble).norm().item<double>(); }

/// error / of, where 0 / 0 is no error.
double share(double error, double of) {
  if (!std::isfinite(error) || !std::isfinite(of)) return infinite;
  return error <= 0 ? 0 : of > 0 ? error / of : infinite;
}

bool same_shape(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.sizes() == b.sizes();
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return same_shape(a, b) ? length_of(a.to(at::kDouble) - b) : infinite;
}

double root_mean_square(const NamedTensors& gradients) {
  double squares = 0, count = 0;
  for (const auto& [name, tensor] : gradients) {
    squares += std::pow(length_of(tensor), 2);
    count += static_cast<double>(tensor.numel());
  }
  return count > 0 ? std::sqrt(squares / count) : 0;
}

struct Error {
  std::string tensor;
  double value;
};
using Errors = std::vector<Error>;  ///< in the network's order

/// measure: (checked, reference, place in the reference) -> error. A tensor that only one has is
/// infinitely wrong.
template <class Measure>
Errors compare(const NamedTensors& checked, const NamedTensors& reference, const Measure& measure) {
  std::map<std::string, at::Tensor> left(checked.begin(), checked.end());
  Errors errors;
  for (size_t i = 0; i < reference.size(); ++i) {
    const auto& [name, tensor] = reference[i];
    const auto found = left.extract(name);
    errors.push_back({name, found ? measure(found.mapped(), tensor, i) : infinite});
  }
  for (const auto& [name, tensor] : left) errors.push_back({name, infinite});
  return errors;
}

/// Lengths of the noise, times what is tolerated of it.
class Noise {
 public:
  Noise(const std::vector<double>& lengths, double times) : lengths_(lengths), times_(times) {}
  double operator[](size_t place) const {
    return place < lengths_.size() ? times_ * lengths_[place] : 0;
  }

 private:
  const std::vector<double>& lengths_;
  double times_;
};

Errors gradient_errors(const NamedTensors& checked, const NamedTensors& reference,
                       const Noise& noise, double least_gradient) {
  const double floor = least_gradient * root_mean_square(reference);
  return compare(checked, reference, [&](const at::Tensor& a, const at::Tensor& b, size_t i) {
    const double least = floor * std::sqrt(static_cast<double>(b.numel()));
    return share(distance(a, b) - noise[i], std::max(length_of(b), least));
  });
}

Errors update_errors(const NamedTensors& checked, const NamedTensors& reference,
                     const NamedTensors& before, const Noise& noise) {
  return compare(checked, reference, [&](const at::Tensor& a, const at::Tensor& b, size_t i) {
    const double rounding = float_rounding * length_of(b);
    return share(distance(a, b) - rounding - noise[i], distance(b, before.at(i).second));
  });
}

Errors errors_of(const std::string& what, const StepPair& step, const Tolerances& tolerances) {
  const auto& [checked, reference, before, overflowed] = step;
  if (what == "loss")
    return {{"", share(std::abs(checked.loss - reference.loss), std::abs(reference.loss))}};
  if (what == "logits")
    return {{"", share(distance(checked.logits, reference.logits), length_of(reference.logits))}};
  if (what == "statistics")
    return update_errors(checked.after.statistics, reference.after.statistics, before.statistics,
                         {reference.statistics_noise, tolerances.noise});
  if (overflowed) return {};
  if (what == "gradients")
    return gradient_errors(checked.gradients, reference.gradients,
                           {reference.gradient_noise, tolerances.noise}, tolerances.least_gradient);
  const std::vector<double> none;
  return update_errors(checked.after.weights, reference.after.weights, before.weights, {none, 0});
}

/// Forward passes go through the network's order, backward ones against it.
std::string first_beyond(const Errors& errors, double tolerance, bool backward) {
  const auto beyond = [&](const Error& error) { return error.value > tolerance; };
  if (backward) {
    const auto found = std::find_if(errors.rbegin(), errors.rend(), beyond);
    return found == errors.rend() ? "" : found->tensor;
  }
  const auto found = std::ranges::find_if(errors, beyond);
  return found == errors.end() ? "" : found->tensor;
}

Deviation deviation(const std::string& what, double Tolerances::*tolerance,
                    const std::vector<StepPair>& steps, const Tolerances& tolerances) {
  Deviation found;
  found.what = what, found.tolerance = tolerances.*tolerance;
  bool compared = false;
  for (const auto& step : steps) {
    const auto errors = errors_of(what, step, tolerances);
    const auto worst = std::ranges::max_element(errors, {}, &Error::value);
    found.by_step.push_back(errors.empty() ? 0 : worst->value);
    if (errors.empty()) continue;
    if (!std::exchange(compared, true) || worst->value > found.worst())
      found.tensor = worst->tensor, found.step = std::ssize(found.by_step) - 1;
    if (found.first.empty())
      found.first = first_beyond(errors, found.tolerance, what == "gradients");
  }
  return found;
}

int coarseness(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return 0;
    case Precision::tf32:
      return 1;
    case Precision::amp_fp16:
      return 2;
    case Precision::amp_bf16:
      break;
  }
  return 3;
}

}  // namespace

Tolerances tolerances_of(Precision one, Precision other) {
  switch (coarseness(one) > coarseness(other) ? one : other) {
    case Precision::fp32:
      return {.loss = 1e-4,
              .logits = 1e-3,
              .gradients = 0.1,
              .weights = 1e-3,
              .statistics = 1e-3,
              .least_gradient = 1e-3,
              .noise = 1e-2};
    case Precision::tf32:
    case Precision::amp_fp16:
      return {.loss = 1e-2,
              .logits = 0.1,
              .gradients = 0.1,
              .weights = 1e-3,
              .statistics = 3e-2,
              .least_gradient = 0.03,
              .noise = 1};
    case Precision::amp_bf16:
      break;
  }
  return {.loss = 5e-2,
          .logits = 0.4,
          .gradients = 0.3,
          .weights = 1e-3,
          .statistics = 0.1,
          .least_gradient = 0.1,
          .noise = 3};
}

std::vector<Deviation> deviations(const std::vector<StepPair>& steps,
                                  const Tolerances& tolerances) {
  return {deviation("loss", &Tolerances::loss, steps, tolerances),
          deviation("logits", &Tolerances::logits, steps, tolerances),
          deviation("gradients", &Tolerances::gradients, steps, tolerances),
          deviation("weights", &Tolerances::weights, steps, tolerances),
          deviation("statistics", &Tolerances::statistics, steps, tolerances)};
}

}  // namespace composer
