// The built-in learning-rate schedules, each a struct of parameters with its formula. In the
// formulas t is the current time, T = t_max and W = t_warmup, all in batches; every time may have
// any unit.
#pragma once

#include <concepts>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/params/params.h"
#include "nn/optimization/scheduler.h"

namespace composer {

inline constexpr Time whole_run{1, TimeUnit::duration};

struct IntervalParams {
  std::string interval = "step";

  void interval_field(auto&& f) {
    f("interval", interval, "change the learning rate every step or every epoch",
      one_of("step", "epoch"));
  }
};

struct WarmupParams {
  Time t_warmup;
  bool scale_warmup = false;

  void warmup_fields(auto&& f) {
    f("t_warmup", t_warmup, "how long the learning rate rises from 0", required, at_least(0.0));
    f("scale_warmup", scale_warmup, "scale_schedule_ratio shortens the warm-up too");
  }
  double warmup(const TimeAxis& axis) const { return axis.length(t_warmup, scale_warmup); }
};

/// All times of a schedule's parameters.
template <class P>
std::vector<NamedTime> times_of(P params) {
  std::vector<NamedTime> times;
  params.fields([&](const char* name, const auto& field, const auto&...) {
    using T = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<T, Time>) times.push_back({name, field});
    if constexpr (std::is_same_v<T, std::vector<Time>>)
      for (const Time& time : field) times.push_back({name, time});
  });
  return times;
}

/// UserError "key: ..." for each time that `axis` cannot place.
void check_times(const std::vector<NamedTime>& times, const TimeAxis& axis);

/// A warning "t_warmup: ..." for a warm-up of 0; else check_rise().
std::vector<std::string> check_warmup(const WarmupParams& params,
                                      const std::vector<NamedTime>& falls, const TimeAxis& axis,
                                      const RunLength& run_length);

/// Warnings for a rise of `length` batches or seconds: "t_warmup: ..." where it is longer than the
/// run; else "t_max: ..." for each of `falls` that ends no later than the rise.
std::vector<std::string> check_rise(const NamedTime& rise, double length,
                                    const std::vector<NamedTime>& falls, const TimeAxis& axis,
                                    const RunLength& run_length);

/// The Scheduler of a schedule P with fields() and alpha(axis).
template <class P>
class ScheduledBy final : public Scheduler {
 public:
  using Params = P;
  explicit ScheduledBy(P params) : params_(std::move(params)), times_(times_of(params_)) {}

  double multiplier(const Timestamp& now, const RunLength& run_length,
                    double scale_schedule_ratio) const override {
    return params_.alpha(axis(now, run_length, scale_schedule_ratio));
  }

  std::vector<std::string> check(const RunLength& run_length,
                                 double scale_schedule_ratio) const override {
    const TimeAxis start = axis({}, run_length, scale_schedule_ratio);
    check_times(times_, start);
    if constexpr (std::derived_from<P, WarmupParams>)
      return check_warmup(params_, falls(), start, run_length);
    if constexpr (requires { params_.t_peak; })
      return check_rise({"t_peak", params_.t_peak}, start.length(params_.t_peak), falls(), start,
                        run_length);
    return {};
  }

 private:
  /// The times at which the learning rate falls after a rise.
  std::vector<NamedTime> falls() const {
    auto all = times_;
    std::erase_if(all,
                  [](const auto& one) { return one.key != "t_max" && one.key != "milestones"; });
    return all;
  }

  TimeAxis axis(const Timestamp& now, const RunLength& run_length, double ratio) const {
    return {now, run_length, ratio, times_, params_.interval == "epoch"};
  }

  P params_;
  std::vector<NamedTime> times_;
};

/// alpha while t < T, then 1.
struct Constant : IntervalParams {
  double factor = 1;
  Time t_max = whole_run;

  void fields(auto&& f) {
    f("alpha", factor, "multiplier", at_least(0.0));
    f("t_max", t_max, "how long it holds; 1 afterwards", above(0.0));
    interval_field(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// gamma ^ floor(t / step_size)
struct StepDecay : IntervalParams {
  Time step_size;
  double gamma = 0.1;

  void fields(auto&& f) {
    f("step_size", step_size, "time between two drops", required, above(0.0));
    f("gamma", gamma, "factor of each drop", above(0.0));
    interval_field(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// gamma ^ (number of milestones <= t)
struct MultiStep : IntervalParams {
  std::vector<Time> milestones;
  double gamma = 0.1;

  void fields(auto&& f) {
    f("milestones", milestones, "times of the drops, counted from the start of training", required,
      at_least(0.0));
    f("gamma", gamma, "factor of each drop", above(0.0));
    interval_field(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// gamma ^ (t / decay_period)
struct Exponential : IntervalParams {
  double gamma = 1;
  Time decay_period{1, TimeUnit::epoch};

  void fields(auto&& f) {
    f("gamma", gamma, "factor of one decay_period", required, above(0.0));
    f("decay_period", decay_period, "time in which the learning rate falls by gamma", above(0.0));
    interval_field(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// alpha_i + min(1, t / T) * (alpha_f - alpha_i)
struct LinearDecay : IntervalParams {
  double alpha_i = 1, alpha_f = 0;
  Time t_max = whole_run;

  void fields(auto&& f) {
    f("alpha_i", alpha_i, "multiplier at the start", at_least(0.0));
    f("alpha_f", alpha_f, "multiplier at the end", at_least(0.0));
    f("t_max", t_max, "when the end is reached", above(0.0));
    interval_field(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// alpha_f + (1 - alpha_f) * (1 + cos(pi * min(1, t / T))) / 2 (Loshchilov and Hutter 2017,
/// arXiv:1608.03983)
struct CosineDecay : IntervalParams {
  Time t_max = whole_run;
  double alpha_f = 0;

  void fields(auto&& f) {
    f("t_max", t_max, "when the end is reached", above(0.0));
    f("alpha_f", alpha_f, "multiplier at the end", at_least(0.0));
    interval_field(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// t < P: alpha_i + (1 - alpha_i) * t / P; else 1 + (alpha_f - 1) * min(1, (t - P) / (T - P)), with
/// P = t_peak: the one-cycle schedule in straight lines (Smith 2018, arXiv:1803.09820).
struct Triangular : IntervalParams {
  Time t_peak;
  double alpha_i = 0, alpha_f = 0;
  Time t_max = whole_run;

  void fields(auto&& f) {
    f("t_peak", t_peak, "when the peak is reached", required, at_least(0.0));
    f("alpha_i", alpha_i, "multiplier at the start", at_least(0.0));
    f("alpha_f", alpha_f, "multiplier at the end", at_least(0.0));
    f("t_max", t_max, "when the end is reached", above(0.0));
    interval_field(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// The cosine repeated in cycles of whole batches, each t_mult times as long as the one before.
struct CosineWarmRestart : IntervalParams {
  Time t_0 = whole_run;
  double t_mult = 1;
  double alpha_f = 0;

  void fields(auto&& f) {
    f("t_0", t_0, "length of the first cycle", above(0.0));
    f("t_mult", t_mult, "length of a cycle over that of the one before", at_least(1.0));
    f("alpha_f", alpha_f, "multiplier at the end of a cycle", at_least(0.0));
    interval_field(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// alpha_f + (1 - alpha_f) * (1 - min(1, t / T)) ^ power
struct Polynomial : IntervalParams {
  double power = 1;
  Time t_max = whole_run;
  double alpha_f = 0;

  void fields(auto&& f) {
    f("power", power, "exponent", required, above(0.0));
    f("t_max", t_max, "when the end is reached", above(0.0));
    f("alpha_f", alpha_f, "multiplier at the end", at_least(0.0));
    interval_field(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// t < W: alpha * t / W; else alpha.
struct ConstantWithWarmup : WarmupParams, IntervalParams {
  double factor = 1;

  void fields(auto&& f) {
    warmup_fields(f);
    f("alpha", factor, "multiplier after the warm-up", at_least(0.0));
    interval_field(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// t < W: t / W; else gamma ^ (number of milestones <= t)
struct MultiStepWithWarmup : WarmupParams, MultiStep {
  void fields(auto&& f) {
    warmup_fields(f);
    MultiStep::fields(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// t < W: alpha_i * t / W; else LinearDecay of (t - W) / (T - W)
struct LinearDecayWithWarmup : WarmupParams, IntervalParams {
  double alpha_i = 1, alpha_f = 0;
  Time t_max = whole_run;

  void fields(auto&& f) {
    warmup_fields(f);
    f("alpha_i", alpha_i, "multiplier after the warm-up", at_least(0.0));
    f("alpha_f", alpha_f, "multiplier at the end", at_least(0.0));
    f("t_max", t_max, "when the end is reached", above(0.0));
    interval_field(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// t < W: t / W; else CosineDecay of (t - W) / (T - W)
struct CosineDecayWithWarmup : WarmupParams, CosineDecay {
  void fields(auto&& f) {
    warmup_fields(f);
    CosineDecay::fields(f);
  }
  double alpha(const TimeAxis& axis) const;
};

/// t < W: t / W; else Polynomial of (t - W) / (T - W)
struct PolyDecayWithWarmup : WarmupParams, IntervalParams {
  double power = 2;
  Time t_max = whole_run;
  double alpha_f = 0;

  void fields(auto&& f) {
    warmup_fields(f);
    f("power", power, "exponent", above(0.0));
    f("t_max", t_max, "when the end is reached", above(0.0));
    f("alpha_f", alpha_f, "multiplier at the end", at_least(0.0));
    interval_field(f);
  }
  double alpha(const TimeAxis& axis) const;
};

}  // namespace composer
