#include "composer/logging/logger.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace composer {
namespace {

/// Done once the work that is queued on the device's stream is.
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

}  // namespace

void Logger::open(const RunInfo& info) {
  for (auto& sink : sinks_) sink->open(info);
}

void Logger::progress(const Progress& progress) {
  for (auto& sink : sinks_) sink->progress(progress);
}

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

void Logger::commit(std::string_view event, const Timestamp& time) {
  if (open_.values.empty() && open_.images.empty()) return;
  open_.event = event;
  open_.time = time;
  committed_.push_back(std::move(open_));
  open_ = {};
}

Logger::Copy Logger::start_copy() {
  Copy copy;
  copy.records = std::exchange(committed_, {});
  std::vector<at::Tensor> numbers;
  for (const auto& record : copy.records) {
    for (const auto& images : record.images)
      if (!images.from.is_cpu()) copy.done = event_after_work_on(images.from);
    for (const auto& [name, value] : record.values)
      if (const auto* tensor = std::get_if<at::Tensor>(&value))
        numbers.push_back(tensor->reshape({}).to(at::kDouble));
  }
  if (numbers.empty()) return copy;

  const auto together = at::stack(numbers);
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
  for (auto& sink : sinks_) sink->write_images(record);
}

void Logger::deliver(Copy copy) {
  if (copy.done) static_cast<c10::Event*>(copy.done.get())->synchronize();
  const double* number = copy.numbers.defined() ? copy.numbers.const_data_ptr<double>() : nullptr;
  for (auto& pending : copy.records) {
    for (auto& images : pending.images) deliver(std::move(images), pending.time);
    if (pending.values.empty()) continue;
    Record record{pending.event, pending.time, {}};
    for (auto& [name, value] : pending.values)
      record.values.emplace_back(std::move(name), std::holds_alternative<double>(value)
                                                      ? std::get<double>(value)
                                                      : *number++);
    for (auto& sink : sinks_) sink->write(record);
  }
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
  for (auto& sink : sinks_) sink->flush();
}

}  // namespace composer
