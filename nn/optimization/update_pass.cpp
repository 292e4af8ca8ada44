#include "nn/optimization/update_pass.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

namespace composer {
namespace {

/// Numbers per chunk: enough to outweigh taking the next chunk, few enough to balance threads.
constexpr int64_t chunk_size = 1 << 15;

UpdateSpan part(UpdateSpan span, int64_t begin, int64_t size) {
  span.size = size;
  span.weight += begin, span.gradient += begin;
  for (auto& state : span.state)
    if (state != nullptr) state += begin;
  if (span.rounded != nullptr) span.rounded += begin;
  if (span.average != nullptr) span.average += begin;
  return span;
}

}  // namespace

void UpdatePass::cut() {
  const auto size = [](const Update& update) { return update.span.size; };
  if (std::ranges::equal(updates_, sizes_, {}, size)) return;
  sizes_.clear(), chunks_.clear();
  for (size_t i = 0; i < updates_.size(); ++i) {
    sizes_.push_back(size(updates_[i]));
    for (int64_t begin = 0; begin < sizes_[i]; begin += chunk_size)
      chunks_.push_back({i, begin, std::min(chunk_size, sizes_[i] - begin)});
  }
}

void UpdatePass::run() {
  cut();
  int64_t total = 0;
  for (const int64_t size : sizes_) total += size;
  std::atomic<size_t> next{0};
  const auto take_chunks = [&](int64_t, int64_t) {
    for (size_t i = next++; i < chunks_.size(); i = next++) {
      const auto& [index, begin, size] = chunks_[i];
      const auto span = part(updates_[index].span, begin, size);
      std::visit([&](const auto& rule) { update(rule, span); }, updates_[index].rule);
    }
  };
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), total / chunk_size + 1);
  at::parallel_for(0, threads, 1, take_chunks);
  updates_.clear();
}

}  // namespace composer
