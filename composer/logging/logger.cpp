#include "composer/logging/logger.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>

#include "base/clock.h"
#include "base/log.h"
#include "nn/device/device.h"

namespace composer {
namespace {

/// An event after the work that is queued on the device's current stream.
std::shared_ptr<void> event_after_work_on(at::Device device) {
  auto event = std::make_shared<c10::Event>(device.type());
  event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

LoggedImage logged_image(const at::Tensor& pixels, std::string caption) {
  const auto* bytes = pixels.const_data_ptr<uint8_t>();
  return {pixels.size(0),
          pixels.size(1),
          pixels.size(2),
          {bytes, bytes + pixels.numel()},
          std::move(caption)};
}

/// The most numbers that are copied at one time.
constexpr int64_t at_once = 1 << 20;

/// The numbers as one dimension in any order, without a copy if they are contiguous in memory.
at::Tensor in_a_row(const at::Tensor& numbers) {
  return numbers.is_non_overlapping_and_dense() ? numbers.as_strided({numbers.numel()}, {1})
                                                : numbers.flatten();
}

at::Tensor finite_doubles(const at::Tensor& numbers) {
  return numbers.to(at::kDouble).nan_to_num(0, 0, 0);
}

/// The min, max, sum and sum of squares of all pieces.
std::array<at::Tensor, 4> summary(const std::vector<at::Tensor>& pieces) {
  std::vector<at::Tensor> lows, highs, sums, squares;
  for (const auto& piece : pieces) {
    const auto x = finite_doubles(piece);
    const auto [low, high] = at::aminmax(x);
    lows.push_back(low), highs.push_back(high);
    sums.push_back(x.sum()), squares.push_back(x.square().sum());
  }
  return {at::stack(lows).min(), at::stack(highs).max(), at::stack(sums).sum(),
          at::stack(squares).sum()};
}

}  // namespace

void Logger::open(const RunInfo& info) {
  opened_ = true;
  for (auto& sink : sinks_)
    if (sink->in_loop())
      direct_.push_back(sink.get());
    else
      threads_.push_back(std::make_unique<SinkThread>(sink));
  for (auto* sink : direct_) sink->open(info);
  for (auto& thread : threads_) thread->put(info);
  const double deadline = steady_seconds() + waits_.flush;
  for (auto& thread : threads_) thread->wait(deadline);
}

void Logger::close(const RunEnd& end) noexcept {
  if (!std::exchange(opened_, false)) return;
  const auto guarded = [](auto&& what) {
    try {
      what();
    } catch (const std::exception& error) {
      log::warn(error.what());
    }
  };
  const double deadline = steady_seconds() + waits_.end;
  for (auto& thread : threads_) guarded([&] { thread->put(end), thread->wake(); });
  for (auto* sink : direct_) guarded([&] { sink->run_end(end); });
  for (auto& thread : threads_) guarded([&] { thread->wait(deadline, /*patient=*/true); });
  threads_.clear();
  direct_.clear();
}

Time Logger::histogram_interval(const RunLength& run_length) const {
  Time most_often{0, TimeUnit::batch};
  for (const auto& sink : sinks_)
    if (const auto wanted = sink->histogram_interval(); wanted.value > 0)
      if (most_often.value == 0 || run_length.batches(wanted) < run_length.batches(most_often))
        most_often = wanted;
  return most_often;
}

void Logger::give(const SinkThread::Item& item) {
  if (!opened_)
    for (auto& sink : sinks_) SinkThread::give(item, *sink);
  for (auto* sink : direct_) SinkThread::give(item, *sink);
  for (auto& thread : threads_) thread->put(item);
}

void Logger::progress(const Progress& progress) { give(progress); }

void Logger::put(std::string name, Value value) {
  const auto same = [&](const auto& entry) { return entry.first == name; };
  const auto found = std::find_if(open_.values.begin(), open_.values.end(), same);
  if (found != open_.values.end())
    found->second = std::move(value);
  else
    open_.values.emplace_back(std::move(name), std::move(value));
}

void Logger::log(std::string name, double value) { put(std::move(name), value); }

void Logger::log(std::string name, at::Tensor value) {
  if (value.is_cpu())
    put(std::move(name), value.item<double>());
  else
    put(std::move(name), value.detach());
}

void Logger::log_images(std::string name, const at::Tensor& images,
                        std::vector<std::string> captions) {
  TORCH_CHECK_VALUE(images.dim() == 4 && images.scalar_type() == at::kByte &&
                        (images.size(3) == 1 || images.size(3) == 3) &&
                        (captions.empty() || std::ssize(captions) == images.size(0)),
                    "log_images: ", name, ": of ", images.scalar_type(), images.sizes(), " with ",
                    captions.size(), " captions; takes uint8 [N, H, W, 1 or 3] and N or none");
  const bool on_device = !images.is_cpu();
  auto pixels = at::empty(images.sizes(), at::TensorOptions(at::kByte).pinned_memory(on_device));
  pixels.copy_(images, /*non_blocking=*/on_device);
  open_.images.push_back({std::move(name), pixels, std::move(captions), images.device()});
}

void Logger::log_histogram(std::string name, const at::Tensor& numbers) {
  if (numbers.numel() > 0) open_.histograms.emplace_back(std::move(name), spread(numbers));
}

void Logger::commit(std::string_view event, const Timestamp& time) {
  if (open_.values.empty() && open_.images.empty() && open_.histograms.empty()) return;
  open_.event = event;
  open_.time = time;
  committed_.push_back(std::move(open_));
  open_ = {};
  ++commits_;
}

Logger::Copy Logger::start_copy() {
  Copy copy;
  copy.records = std::exchange(committed_, {});
  std::vector<at::Tensor> numbers;
  for (const auto& record : copy.records) {
    for (const auto& histogram : record.histograms) numbers.push_back(histogram.second);
    for (const auto& images : record.images)
      if (!images.from.is_cpu()) copy.done = event_after_work_on(images.from);
    for (const auto& [name, value] : record.values)
      if (const auto* tensor = std::get_if<at::Tensor>(&value))
        numbers.push_back(tensor->reshape({1}).to(at::kDouble));
  }
  if (numbers.empty()) return copy;

  const auto on_device = std::ranges::find_if_not(numbers, &at::Tensor::is_cpu);
  if (on_device != numbers.end()) {
    const auto device = on_device->device();
    for (auto& number : numbers) number = number.to(device, /*non_blocking=*/true);
  }
  const auto together = at::cat(numbers);
  if (together.is_cpu()) {
    copy.numbers = together;
    return copy;
  }
  copy.numbers = at::empty(together.sizes(), at::TensorOptions(at::kDouble).pinned_memory(true));
  copy.numbers.copy_(together, /*non_blocking=*/true);
  copy.done = event_after_work_on(together.device());
  return copy;
}

void Logger::deliver(PendingImages images, const Timestamp& time) {
  ImageRecord record{std::move(images.name), time, {}};
  for (int64_t i = 0; i < images.pixels.size(0); ++i)
    record.images.push_back(logged_image(
        images.pixels[i],
        images.captions.empty() ? "" : std::move(images.captions[static_cast<size_t>(i)])));
  give(std::make_shared<const ImageRecord>(std::move(record)));
}

void Logger::deliver_histogram(std::string name, const Timestamp& time, const double* numbers) {
  HistogramRecord record{.name = std::move(name), .time = time, .counts = {}};
  record.min = numbers[0], record.max = numbers[1], record.count = numbers[2];
  record.sum = numbers[3], record.sum_of_squares = numbers[4];
  record.counts.assign(numbers + spread_summary, numbers + spread_numbers);
  give(std::make_shared<const HistogramRecord>(std::move(record)));
}

void Logger::deliver(Copy copy) {
  if (copy.done) static_cast<c10::Event*>(copy.done.get())->synchronize();
  const double* number = copy.numbers.defined() ? copy.numbers.const_data_ptr<double>() : nullptr;
  for (auto& pending : copy.records) {
    for (auto& images : pending.images) deliver(std::move(images), pending.time);
    for (auto& histogram : pending.histograms) {
      deliver_histogram(std::move(histogram.first), pending.time, number);
      number += spread_numbers;
    }
    if (pending.values.empty()) continue;
    Record record{pending.event, pending.time, {}};
    record.values.reserve(pending.values.size());
    for (auto& [name, value] : pending.values)
      record.values.emplace_back(std::move(name), std::holds_alternative<double>(value)
                                                      ? std::get<double>(value)
                                                      : *number++);
    give(std::make_shared<const Record>(std::move(record)));
  }
  for (auto& thread : threads_) thread->put(SinkThread::Flush{}), thread->wake();
}

void Logger::deliver_first() {
  Copy copy = std::move(in_flight_.front());
  in_flight_.pop_front();
  deliver(std::move(copy));
}

void Logger::write() {
  in_flight_.push_back(start_copy());
  while (in_flight_.size() > 1) deliver_first();
}

void Logger::flush() {
  in_flight_.push_back(start_copy());
  while (!in_flight_.empty()) deliver_first();
  give(SinkThread::Flush{});
  const double deadline = steady_seconds() + waits_.flush;
  for (auto& thread : threads_) thread->wait(deadline);
}

at::Tensor spread(const at::Tensor& numbers) {
  const at::NoGradGuard no_grad;
  const AnyOrder counted;
  const auto pieces = in_a_row(numbers.detach()).split(at_once);
  const auto [low, high, sum, squares] = summary(pieces);
  const auto width = at::where(high > low, high - low, at::ones_like(high));
  auto counts = at::zeros({spread_parts}, low.options());
  for (const auto& piece : pieces) {
    const auto place = (finite_doubles(piece) - low).div_(width).mul_(spread_parts);
    const auto part = place.to(at::kLong).clamp_(0, spread_parts - 1);
    counts.scatter_add_(0, part, at::ones_like(place));
  }
  const auto count = at::full_like(low, static_cast<double>(numbers.numel()));
  return at::cat({at::stack({low, high, count, sum, squares}), counts});
}

}  // namespace composer
