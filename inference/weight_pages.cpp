#include "inference/weight_pages.h"

#include <utility>

#include "nn/device/cpu_allocator.h"

namespace composer {

std::shared_ptr<int8_t> WeightPages::take(size_t bytes) {
  constexpr size_t page_bytes = 4 << 20, alignment = 64;
  const auto page_of = [](size_t size) {
    return std::make_shared<c10::DataPtr>(CpuAllocator::instance().allocate(size));
  };
  const size_t taken = (bytes + alignment - 1) / alignment * alignment;
  if (taken >= page_bytes) {
    const auto own = page_of(taken);
    return {own, static_cast<int8_t*>(own->get())};
  }
  const std::lock_guard lock(mutex_);
  if (taken > room_) {
    page_ = page_of(page_bytes);
    next_ = static_cast<int8_t*>(page_->get());
    room_ = page_bytes;
  }
  room_ -= taken;
  return {page_, std::exchange(next_, next_ + taken)};
}

WeightPages& WeightPages::instance() {
  static WeightPages pages;
  return pages;
}

}  // namespace composer
