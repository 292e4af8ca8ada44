#include "nn/optimization/schedulers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace composer {
namespace {

/// t / length in [0, 1]; 1 where length is 0.
double progress(double t, double length) { return t >= length ? 1 : t / length; }

double between(double start, double end, double share) { return start + (end - start) * share; }

/// Half a cosine from `start` at x = 0 to `end` at x = 1.
double cosine(double start, double end, double x) {
  return between(end, start, (1 + std::cos(std::numbers::pi * x)) / 2);
}

double polynomial(double end, double x, double power) {
  return between(end, 1, std::pow(1 - x, power));
}

double drops(const TimeAxis& axis, const std::vector<Time>& milestones, double gamma) {
  const auto passed = std::count_if(milestones.begin(), milestones.end(), [&](const Time& time) {
    return axis.length(time) <= axis.now();
  });
  return std::pow(gamma, static_cast<double>(passed));
}

/// Progress from the end of a warm-up to t_max.
double progress_after(double warmup, const TimeAxis& axis, const Time& t_max) {
  return progress(axis.now() - warmup, axis.length(t_max) - warmup);
}

}  // namespace

void check_times(const std::vector<NamedTime>& times, const TimeAxis& axis) {
  std::vector<std::string> problems;
  for (const auto& [key, time] : times) {
    try {
      axis.length(time);
    } catch (const UserError& error) {
      problems.push_back(key + ": " + error.what());
    }
  }
  if (!problems.empty()) throw UserError(problems);
}

std::vector<std::string> check_warmup(const WarmupParams& params,
                                      const std::vector<NamedTime>& falls, const TimeAxis& axis,
                                      const RunLength& run_length) {
  const double warmup = params.warmup(axis);
  if (warmup <= 0)
    return {"t_warmup: " + params.t_warmup.str() +
            " is no warm-up; training starts at the full learning rate"};
  return check_rise({"t_warmup", params.t_warmup}, warmup, falls, axis, run_length);
}

std::vector<std::string> check_rise(const NamedTime& rise, double length,
                                    const std::vector<NamedTime>& falls, const TimeAxis& axis,
                                    const RunLength& run_length) {
  if (length > axis.run())
    return {rise.key + ": " + rise.time.str() + " is longer than the run (" +
            run_length.max_duration.str() + "), which never reaches the full learning rate"};
  std::vector<std::string> warnings;
  for (const auto& [key, time] : falls) {
    const double end = axis.length(time);
    if (length <= 0 || end > length || end >= axis.run()) continue;
    const bool by_ratio = axis.length(time, /*scaled=*/false) > length;
    warnings.push_back(key + ": " + time.str() + (by_ratio ? ", times scale_schedule_ratio," : "") +
                       " is not after the end of " + rise.key + " (" + rise.time.str() +
                       "): the learning rate drops as soon as it has risen");
  }
  return warnings;
}

double Constant::alpha(const TimeAxis& axis) const {
  return axis.now() < axis.length(t_max) ? factor : 1;
}

double StepDecay::alpha(const TimeAxis& axis) const {
  return std::pow(gamma, std::floor(axis.now() / axis.period(step_size)));
}

double MultiStep::alpha(const TimeAxis& axis) const { return drops(axis, milestones, gamma); }

double Exponential::alpha(const TimeAxis& axis) const {
  return std::pow(gamma, axis.now() / axis.period(decay_period));
}

double LinearDecay::alpha(const TimeAxis& axis) const {
  return between(alpha_i, alpha_f, progress(axis.now(), axis.length(t_max)));
}

double CosineDecay::alpha(const TimeAxis& axis) const {
  return cosine(1, alpha_f, progress(axis.now(), axis.length(t_max)));
}

double CosineWarmRestart::alpha(const TimeAxis& axis) const {
  double cycle = axis.period(t_0), start = 0;
  if (t_mult == 1) start = std::floor(axis.now() / cycle) * cycle;
  while (axis.now() >= start + cycle) {
    start += cycle;
    cycle = axis.whole(t_mult * cycle);
  }
  return cosine(1, alpha_f, (axis.now() - start) / cycle);
}

double Triangular::alpha(const TimeAxis& axis) const {
  const double peak = axis.length(t_peak);
  return axis.now() < peak ? between(alpha_i, 1, axis.now() / peak)
                           : between(1, alpha_f, progress_after(peak, axis, t_max));
}

double Polynomial::alpha(const TimeAxis& axis) const {
  return polynomial(alpha_f, progress(axis.now(), axis.length(t_max)), power);
}

double ConstantWithWarmup::alpha(const TimeAxis& axis) const {
  return factor * progress(axis.now(), warmup(axis));
}

double MultiStepWithWarmup::alpha(const TimeAxis& axis) const {
  const double w = warmup(axis);
  return axis.now() < w ? axis.now() / w : drops(axis, milestones, gamma);
}

double LinearDecayWithWarmup::alpha(const TimeAxis& axis) const {
  const double w = warmup(axis);
  return axis.now() < w ? alpha_i * axis.now() / w
                        : between(alpha_i, alpha_f, progress_after(w, axis, t_max));
}

double CosineDecayWithWarmup::alpha(const TimeAxis& axis) const {
  const double w = warmup(axis);
  return axis.now() < w ? axis.now() / w : cosine(1, alpha_f, progress_after(w, axis, t_max));
}

double PolyDecayWithWarmup::alpha(const TimeAxis& axis) const {
  const double w = warmup(axis);
  return axis.now() < w ? axis.now() / w
                        : polynomial(alpha_f, progress_after(w, axis, t_max), power);
}

}  // namespace composer
