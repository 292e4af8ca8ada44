#include "nn/profiling/conversions.h"

#include <atomic>
#include <memory>
#include <string_view>

namespace composer {
namespace {

/// Whether both are dense, with different orders in memory.
bool reordered(const at::Tensor& to, const at::Tensor& from) {
  if (to.sizes() != from.sizes()) return false;
  if (!to.is_non_overlapping_and_dense() || !from.is_non_overlapping_and_dense()) return false;
  for (int64_t i = 0; i < to.dim(); ++i)
    if (to.size(i) > 1 && to.stride(i) != from.stride(i)) return true;
  return false;
}

std::atomic<int64_t> conversions;

std::unique_ptr<at::ObserverContext> look_at_copy(const at::RecordFunction& op) {
  if (std::string_view(op.name()) != "aten::copy_") return nullptr;
  const auto &to = op.inputs().at(0).toTensor(), &from = op.inputs().at(1).toTensor();
  if (to.numel() > 1 && (to.scalar_type() != from.scalar_type() || reordered(to, from)))
    ++conversions;
  return nullptr;
}

}  // namespace

ConversionCounter::ConversionCounter() {
  conversions = 0;
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&look_at_copy)
                                      .needsInputs(true)
                                      .scopes({at::RecordScope::FUNCTION}));
}

ConversionCounter::~ConversionCounter() { at::removeCallback(handle_); }

int64_t ConversionCounter::count() const { return conversions; }

}  // namespace composer
