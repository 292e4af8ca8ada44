#include "composer/callbacks/monitors.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "base/number_text.h"
#include "base/params/utf8.h"
#include "base/text.h"
#include "base/url_secrets.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"
#include "nn/device/gpu_name.h"
#include "nn/distributed/process_group.h"
#include "nn/network/cost.h"
#include "nn/network/model.h"
#include "nn/network/normalize.h"
#include "nn/optimization/gradient_norm.h"

namespace composer {
namespace {

/// The resident bytes of the process; 0 if unknown.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return file ? resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) : 0;
}

/// Whether the interval was due at the end of the previous batch.
bool is_due(const State& state, const Time& interval) {
  const auto& time = state.time;
  return time.batch == 0 || state.run_length.due(interval, time, false) ||
         (time.batch_in_epoch == 0 && state.run_length.due(interval, time, true));
}

/// "train/cat/1.jpg, sample 12" of the sample at that position of the whole batch; "" where the
/// loader does not tell.
std::string sample_text_at(const State& state, int64_t position) {
  if (state.loader == nullptr || !state.indices.defined() || position >= state.indices.size(0))
    return "";
  const auto index = state.indices.const_data_ptr<int64_t>()[position];
  const auto name = shown_utf8(without_secrets(state.loader->sample_name(index)));
  return name.empty() ? "" : sample_text(name, index);
}

/// The values of each sample, with their names if they have some.
std::vector<std::string> value_texts(const at::Tensor& values,
                                     const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < values.size(0); ++i) {
    auto& text = texts.emplace_back();
    for (int64_t k = 0; k < values.size(1); ++k) {
      if (k > 0) text += ", ";
      if (k < std::ssize(names)) text += names[static_cast<size_t>(k)] + " ";
      text += number_text(values[i][k].item<double>(), 2);
    }
  }
  return texts;
}

/// The graph of the network for one image of the batch.
Graph graph_of_image(const State& state) {
  try {
    return record(*state.model, at::zeros_like(state.batch.input.slice(0, 0, 1)));
  } catch (const UserError& error) {
    throw UserError(std::string("callbacks.mfu: ") + error.what());
  }
}

double step_flops(const Graph& graph, const Model& model) {
  return static_cast<double>(cost_of(graph, model).flops_step);
}

std::string rate_text(double flops) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", flops / 1e12);
  return std::string(text) + " TFLOP/s";
}

/// A GPU's peaks in TFLOP/s, without sparsity; 0: the GPU lacks this arithmetic.
struct PublishedPeak {
  std::string_view gpu;  ///< part of the GPU's name; the first match counts
  double fp32, tf32, fp16, bf16;
};

constexpr PublishedPeak published[] = {
    {"H200", 66.9, 494.7, 989.4, 989.4},    {"H100 80GB HBM3", 66.9, 494.7, 989.4, 989.4},
    {"H100 PCIe", 51.2, 378, 756.5, 756.5}, {"A100", 19.5, 156, 312, 312},
    {"V100-SXM2", 15.7, 0, 125, 0},         {"Tesla T4", 8.1, 0, 65, 0},
};

at::ScalarType type_of(Precision precision) {
  return precision == Precision::amp_bf16   ? at::kBFloat16
         : precision == Precision::amp_fp16 ? at::kHalf
                                            : at::kFloat;
}

/// A product of n x n matrices to be timed.
class SquareProduct {
 public:
  SquareProduct(int64_t n, at::ScalarType type, at::Device device)
      : n_(n),
        factor_(at::linspace(-1, 1, n * n, at::TensorOptions(device)).view({n, n}).to(type)),
        product_(at::empty_like(factor_)),
        device_(device) {
    seconds();  // the first one also sets up
  }

  double seconds() {
    synchronize(device_);
    const double begin = steady_seconds();
    at::mm_out(product_, factor_, factor_);
    synchronize(device_);
    return steady_seconds() - begin;
  }

  double flops() const { return 2.0 * static_cast<double>(n_ * n_ * n_); }

 private:
  int64_t n_;
  at::Tensor factor_, product_;
  at::Device device_;
};

/// The highest FLOP/s of a few products of large square matrices.
double measured_peak(Precision precision, at::Device device) {
  constexpr int64_t smallest = 1024, largest = 8192;
  constexpr double long_enough = 0.005;  // seconds, beside which starting a product is nothing
  constexpr int repeats = 5;
  for (int64_t n = smallest;; n *= 2) {
    SquareProduct product(n, type_of(precision), device);
    double best = product.seconds();
    if (best < long_enough && n < largest) continue;
    for (int i = 0; i < repeats; ++i) best = std::min(best, product.seconds());
    return product.flops() / best;
  }
}

}  // namespace

void IntervalMonitor::batch_end(const State& state, Logger& logger, RunControl&) {
  if (state.run_length.due(interval_, state.time, false)) look(state, logger);
}

void IntervalMonitor::epoch_end(const State& state, Logger& logger, RunControl&) {
  if (state.run_length.due(interval_, state.time, true)) look(state, logger);
}

std::string parameter_group(const std::string& name, int64_t depth) {
  size_t end = std::min(name.rfind('.'), name.size()), at = 0;
  for (int64_t part = 0; part < depth; ++part) {
    const size_t dot = name.find('.', at);
    if (dot >= end) return name.substr(0, end);
    at = dot + 1;
  }
  return name.substr(0, at - 1);
}

void GradientMonitor::look(const State& state, Logger& logger) {
  const at::NoGradGuard no_grad;
  // A gradient that only one rank has counts on all ranks.
  const auto ranks = state.gradient_ranks();
  std::map<std::string, std::vector<at::Tensor>> groups;
  for (const auto& item : state.model->named_parameters()) {
    const auto& gradient = item.value().grad();
    if (!gradient.defined() && (ranks.alone() || !item.value().requires_grad())) continue;
    auto& group = groups[parameter_group(item.key(), params_.group_depth)];
    if (gradient.defined()) group.push_back(gradient);
  }
  if (groups.empty()) return;
  const auto squares =
      at::zeros({2, std::ssize(groups)}, at::TensorOptions(state.device).dtype(at::kDouble));
  int64_t column = 0;
  for (const auto& [name, gradients] : groups) {
    if (!gradients.empty()) {
      squares[0][column].copy_(global_norm(gradients).to(at::kDouble).square());
      squares[1][column].fill_(1);
    }
    ++column;
  }
  ranks.sum(squares);
  const auto there = ranks.alone() ? at::Tensor() : squares[1].cpu();
  std::vector<at::Tensor> norms;
  column = 0;
  for (const auto& [name, gradients] : groups) {
    const int64_t group = column++;
    if (there.defined() && there[group].item<double>() == 0) continue;
    norms.push_back(squares[0][group].sqrt());
    if (params_.log_layer_grad_norms) logger.log("layer_grad_l2_norm/" + name, norms.back());
  }
  if (!norms.empty()) logger.log("grad_l2_norm/step", at::stack(norms).norm());
}

void HistogramMonitor::look(const State& state, Logger& logger) {
  for (const auto& item : state.model->named_parameters()) {
    logger.log_histogram("weights/" + item.key(), item.value());
    if (item.value().grad().defined())
      logger.log_histogram("gradients/" + item.key(), item.value().grad());
  }
}

void MemoryMonitor::look(const State& state, Logger& logger) {
  logger.log("memory/rss", resident_bytes());
  logger.log("memory/peak_rss", static_cast<double>(peak_memory_bytes(at::kCPU)));
  if (state.device.is_cpu()) return;
  const auto stats =
      at::getDeviceAllocator(state.device.type())->getDeviceStats(state.device.index());
  constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  logger.log("memory/allocated_mem", static_cast<double>(stats.allocated_bytes[all].current));
  logger.log("memory/peak_allocated_mem", static_cast<double>(stats.allocated_bytes[all].peak));
  logger.log("memory/reserved_mem", static_cast<double>(stats.reserved_bytes[all].current));
}

Stragglers::Reading Stragglers::read(const State& state) {
  const auto& group = dynamic_cast<const ProcessGroupCommunicator&>(*state.ranks.communicator());
  return {steady_seconds(), group.waited_seconds()};
}

void Stragglers::fit_start(const State& state, Logger&, RunControl&) { begin_ = read(state); }

void Stragglers::batch_end(const State& state, Logger& logger, RunControl&) {
  ++batches_;
  if (!state.run_length.due(log_interval_, state.time, false)) return;
  const auto now = read(state);
  const double waited = now.waited - begin_.waited;
  const double worked = now.passed - begin_.passed - waited;
  const auto of_all =
      state.ranks.gather(at::tensor({worked, waited}, at::kDouble)) / static_cast<double>(batches_);
  const auto work = of_all.select(1, 0);
  logger.log("ranks/slowest", static_cast<double>(work.argmax().item<int64_t>()));
  logger.log("ranks/slowest_excess", (work.max() - work.mean()).item<double>());
  logger.log("ranks/wait", of_all.select(1, 1).mean().item<double>());
  begin_ = read(state);
  batches_ = 0;
}

void Stragglers::eval_start(const State& state, Logger&, RunControl&) { eval_begin_ = read(state); }

void Stragglers::eval_end(const State& state, Logger&, RunControl&) {
  const auto now = read(state);
  begin_.passed += now.passed - eval_begin_.passed;
  begin_.waited += now.waited - eval_begin_.waited;
}

void ImageMonitor::batch_start(const State& state, Logger& logger, RunControl&) {
  if (!is_due(state, params_.interval)) return;
  const at::NoGradGuard no_grad;
  const int64_t shown = std::min(params_.num_images, state.batch.samples());
  const int64_t channels = shown > 0 ? state.batch.input.size(1) : 0;
  if (channels != 1 && channels != 3) return;
  auto captions = label_texts(state.batch.target.slice(0, shown), state.class_names);
  const bool is_whole = state.indices.defined() && state.indices.size(0) == state.batch.samples();
  for (int64_t i = 0; is_whole && i < shown; ++i)
    if (const auto text = sample_text_at(state, i); !text.empty())
      captions[static_cast<size_t>(i)] += ", " + text;
  logger.log_images("images/train",
                    denormalize(state.batch.input.slice(0, 0, shown), state.normalization),
                    std::move(captions));
}

at::Tensor denormalize(const at::Tensor& input, const Normalization& normalization) {
  return to_bytes(pixel_values(input, normalization));
}

std::vector<std::string> label_texts(const Target& target, const std::vector<std::string>& names) {
  if (target.values.defined()) return value_texts(target.values.cpu(), names);
  const auto classes = target.classes.cpu();
  const auto others = target.other_classes.defined() ? target.other_classes.cpu() : at::Tensor();
  const auto weights = others.defined() ? target.other_weight.cpu() : at::Tensor();
  const auto name = [&](int64_t index) {
    return index >= 0 && index < std::ssize(names) ? names[static_cast<size_t>(index)]
                                                   : std::to_string(index);
  };
  std::vector<std::string> texts;
  for (int64_t i = 0; i < classes.size(0); ++i) {
    const auto own = name(classes[i].item<int64_t>());
    const double weight = others.defined() ? weights[i].item<double>() : 0;
    texts.push_back(weight == 0
                        ? own
                        : own + " " + number_text(1 - weight, 2) + ", " +
                              name(others[i].item<int64_t>()) + " " + number_text(weight, 2));
  }
  return texts;
}

void Mfu::fit_start(const State& state, Logger&, RunControl&) {
  const auto peak = params_.peak_flops ? PeakFlops{*params_.peak_flops, "as stated"}
                                       : peak_flops(state.precision, state.device);
  peak_ = peak.per_second * static_cast<double>(state.ranks.size());
  log::info("mfu: 1 is " + rate_text(peak.per_second) + " in " +
            std::string(name(state.precision)) +
            (state.ranks.size() > 1 ? " on each of " + std::to_string(state.ranks.size()) + " ranks"
                                    : "") +
            ", " + peak.source);
}

void Mfu::epoch_start(const State& state, Logger&, RunControl&) {
  for (auto& [shape, known] : known_) known.flops = step_flops(known.graph, *state.model);
}

void Mfu::batch_start(const State& state, Logger&, RunControl&) {
  const auto shape = state.batch.input.sizes().slice(1).vec();
  auto found = known_.find(shape);
  if (found == known_.end()) {
    rate_.suspend();
    auto graph = graph_of_image(state);
    const double flops = step_flops(graph, *state.model);
    found = known_.emplace(shape, Known{std::move(graph), flops}).first;
    rate_.resume();
  }
  flops_ = found->second.flops;
  last_sample_ = state.time.sample;
  rate_.batch_start();
}

void Mfu::batch_end(const State& state, Logger& logger, RunControl&) {
  rate_.batch_end(static_cast<double>(state.time.sample - last_sample_) * flops_);
  if (rate_.per_second() > 0) logger.log("throughput/mfu", rate_.per_second() / peak_);
}

void Mfu::eval_start(const State&, Logger&, RunControl&) { rate_.suspend(); }

void Mfu::eval_end(const State&, Logger&, RunControl&) { rate_.resume(); }

std::optional<double> published_peak(std::string_view gpu, Precision precision) {
  const auto found = std::ranges::find_if(
      published, [&](const auto& known) { return gpu.find(known.gpu) != std::string_view::npos; });
  if (found == std::end(published)) return std::nullopt;
  const double peak = precision == Precision::fp32       ? found->fp32
                      : precision == Precision::tf32     ? found->tf32
                      : precision == Precision::amp_fp16 ? found->fp16
                                                         : found->bf16;
  return peak > 0 ? std::optional(peak * 1e12) : std::nullopt;
}

PeakFlops peak_flops(Precision precision, at::Device device) {
  if (device.is_cuda()) {
    const auto gpu = gpu_name(device.index());
    if (const auto peak = published_peak(gpu, precision)) return {*peak, "published for " + gpu};
  }
  return {measured_peak(precision, device), "measured by products of large matrices"};
}

}  // namespace composer
