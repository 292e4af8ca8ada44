#include "scale/step_time.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace composer {
namespace {

class StageList {
 public:
  /// Begins `transfer` and returns its number for wait_for(); 0 for row transfers and if nothing is
  /// sent.
  int64_t begin(const Transfer& transfer) {
    if (transfer.messages <= 0) return 0;
    next_.begins.push_back(transfer);
    return transfer.kind == Transfer::Kind::rows ? 0 : ++begun_;
  }
  void wait_for(int64_t number) { next_.waits_for = std::max(next_.waits_for, number); }
  void wait_for_all() { wait_for(begun_); }
  void compute(double seconds) {
    next_.compute = seconds;
    stages_.push_back(std::exchange(next_, {}));
  }
  /// Makes later transfers begin after the waits so far.
  void order() {
    if (!next_.begins.empty() || next_.waits_for > 0) compute(0);
  }

  std::vector<Stage> take() { return std::move(stages_); }

 private:
  std::vector<Stage> stages_;
  Stage next_;
  int64_t begun_ = 0;
};

/// Adds a pass that stops for row transfers and begins to send buckets.
void add_pass(double seconds, std::vector<RowStop> stops, const std::vector<Bucket>& buckets,
              StageList& list) {
  for (const auto& [bytes, ready] : buckets)
    stops.push_back({{Transfer::Kind::sums, bytes}, ready});
  std::ranges::stable_sort(stops, {}, &RowStop::at);
  double passed = 0;
  for (const auto& [transfer, at] : stops) {
    if (at > passed) list.compute((at - passed) * seconds);
    passed = std::max(passed, at);
    list.begin(transfer);
  }
  if (passed < 1) list.compute((1 - passed) * seconds);
}

void add_forward(const std::vector<UnitPass>& units, bool overlap, StageList& list) {
  std::vector<int64_t> gathers(units.size());  // numbers from begin()
  for (size_t i = 0; i < units.size(); ++i) {
    if (i == 0 || !overlap) gathers[i] = list.begin(units[i].gather);
    list.wait_for(gathers[i]);
    if (overlap && i + 1 < units.size()) {
      list.order();
      gathers[i + 1] = list.begin(units[i + 1].gather);
    }
    list.compute(units[i].forward);
  }
}

/// The last unit has its weights from the forward pass.
void add_backward(const StepParts& parts, bool overlap, StageList& list) {
  const auto& units = parts.units;
  std::vector<int64_t> gathers(units.size());
  for (size_t i = units.size(); i-- > 0;) {
    if (i + 1 < units.size()) {
      list.begin(units[i + 1].sum);
      if (overlap) {
        list.wait_for(gathers[i]);
      } else {
        list.begin(units[i].gather);
        list.wait_for_all();
      }
    }
    if (overlap && i > 0) {
      list.order();
      gathers[i - 1] = list.begin(units[i - 1].gather);
    }
    list.compute(units[i].backward);
  }
  list.begin(units[0].sum);
  for (const auto& sum : parts.late_sums) list.begin(sum);
  list.wait_for_all();
  list.order();
}

/// The quantile p of the normal distribution, by Newton's method.
double normal_quantile(double p) {
  double x = 0;
  for (int i = 0; i < 100; ++i) {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    const double step = (std::erfc(-x / std::numbers::sqrt2) / 2 - p) / density;
    x -= std::clamp(step, -1.0, 1.0);
    if (std::abs(step) < 1e-12) break;
  }
  return x;
}

/// Seconds of the stages, with arithmetic `slower` times as long; adds their parts to `time`.
double walk(const std::vector<Stage>& stages, const Cluster& cluster, double slower,
            StepTime& time) {
  double now = 0;
  std::vector<double> ended;  // end times of the transfers of all GPUs
  for (const auto& stage : stages) {
    double ready = now;
    for (const auto& transfer : stage.begins) {
      const double takes = transfer_seconds(transfer, cluster);
      time.communication += takes;
      if (transfer.kind == Transfer::Kind::weights) time.weights += takes;
      if (transfer.kind == Transfer::Kind::rows) {
        time.rows += takes;
        ready += takes;
      } else {
        ended.push_back(std::max(ended.empty() ? 0 : ended.back(), now) + takes);
      }
    }
    if (stage.waits_for > 0)
      ready = std::max(ready, ended[static_cast<size_t>(stage.waits_for) - 1]);
    time.exposed += ready - now;
    time.compute += stage.compute * slower;
    now = ready + stage.compute * slower;
  }
  return now;
}

/// The stages of a step's forward passes alone.
std::vector<Stage> forward_stages(const StepParts& parts, const Cluster& cluster, bool overlap) {
  StageList list;
  if (cluster.gpus < 2) {
    list.compute(parts.forward);
  } else if (parts.units.empty()) {
    add_pass(parts.forward, parts.forward_rows, {}, list);
  } else {
    for (int64_t pass = 0; pass < parts.passes; ++pass) add_forward(parts.units, overlap, list);
  }
  return list.take();
}

}  // namespace

std::vector<Stage> stages_of(const StepParts& parts, const Cluster& cluster, bool overlap) {
  StageList list;
  if (cluster.gpus < 2) {
    list.compute(parts.seconds());
    return list.take();
  }
  for (int64_t pass = 0; pass < parts.passes && !parts.units.empty(); ++pass) {
    add_forward(parts.units, overlap, list);
    add_backward(parts, overlap, list);
  }
  if (parts.units.empty()) {
    add_pass(parts.forward, parts.forward_rows, {}, list);
    add_pass(parts.backward, parts.backward_rows, overlap ? parts.buckets : std::vector<Bucket>(),
             list);
    for (const auto& bucket : parts.buckets)
      if (!overlap) list.begin({Transfer::Kind::sums, bucket.bytes});
  }
  list.wait_for_all();
  list.compute(parts.rest);
  for (const auto& transfer : parts.updated) list.begin(transfer);
  list.wait_for_all();
  list.order();
  return list.take();
}

double expected_largest(int64_t n) {
  if (n < 2) return 0;
  return normal_quantile((static_cast<double>(n) - 0.375) / (static_cast<double>(n) + 0.25));
}

StepTime step_time(const StepParts& parts, const Cluster& cluster, bool overlap,
                   double load_seconds, double spread) {
  StepTime time;
  const double work = walk(stages_of(parts, cluster, overlap), cluster,
                           1 + spread * expected_largest(cluster.gpus), time);
  time.seconds = std::max(work, load_seconds);
  time.loading = time.seconds - work;
  return time;
}

double forward_seconds(const StepParts& parts, const Cluster& cluster, bool overlap) {
  StepTime time;
  return walk(forward_stages(parts, cluster, overlap), cluster, 1, time);
}

double daly_interval(const FailureModel& model) {
  const double c = model.checkpoint, m = model.between_failures;
  if (c >= 2 * m) return m;
  const double x = std::sqrt(c / (2 * m));
  return std::sqrt(2 * c * m) * (1 + x / 3 + x * x / 9) - c;
}

double expected_seconds(double work, double interval, const FailureModel& model) {
  if (work <= 0) return 0;
  // A run shorter than the interval is one piece, saved at its end.
  interval = interval > 0 && interval < work ? interval : work;
  const double pieces = work / interval;
  if (model.between_failures <= 0) return work + pieces * model.checkpoint;
  const double m = model.between_failures;
  return m * std::exp(model.restart / m) * std::expm1((interval + model.checkpoint) / m) * pieces;
}

}  // namespace composer
