#include "inference/weight_pages.h"

#include <algorithm>
#include <utility>

#include "composer/cpu_allocator.h"

namespace composer {

std::shared_ptr<int8_t> WeightPages::take(size_t bytes) {
  constexpr size_t least_page = 4 << 20, alignment = 64;
  const size_t taken = (bytes + alignment - 1) / alignment * alignment;
  const std::lock_guard lock(mutex_);
  if (taken > room_) {
    room_ = std::max(taken, least_page);
    page_ = std::make_shared<c10::DataPtr>(CpuAllocator::instance().allocate(room_));
    next_ = static_cast<int8_t*>(std::static_pointer_cast<c10::DataPtr>(page_)->get());
  }
  room_ -= taken;
  return {page_, std::exchange(next_, next_ + taken)};
}

WeightPages& WeightPages::instance() {
  static WeightPages pages;
  return pages;
}

}  // namespace composer
