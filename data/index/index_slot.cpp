#include "data/index/index_slot.h"

#include <cstring>

#include "data/index/coefficient_store.h"

namespace composer {

void IndexSlot::use(IndexStore& store, CoefficientStore* coefficients) {
  if (!placed_) return;
  store_ = &store;
  coefficients_ = coefficients;
  if (coefficients != nullptr) kept_ = coefficients->find(key_, stamp_);
  if (!kept_) found_ = store.find(key_, stamp_);
}

bool IndexSlot::use_kept(JpegKept& kept) const {
  if (coefficients_ == nullptr) return false;
  kept.wanted = coefficients_->takes() && records();
  kept.table = {};
  if (!kept_) return kept.wanted;
  uint64_t place;
  std::memcpy(&place, kept_->data(), sizeof place);
  kept.table = std::span<const uint8_t>(*kept_).subspan(sizeof place);
  kept.read = [store = coefficients_, place](uint64_t at, std::span<uint8_t> to) {
    return store->read(place + at, to);
  };
  return true;
}

void IndexSlot::keep(const JpegKept& kept) const {
  coefficients_->keep(key_, stamp_, kept.made_table, kept.made_rows);
}

}  // namespace composer
