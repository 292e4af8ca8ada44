// The place of one JPEG stream among the crop indices, and the kept coefficients, of its set.
#pragma once

#include <cstdint>
#include <span>

#include "data/index/index_store.h"
#include "data/jpeg/decoder.h"

namespace composer {

class CoefficientStore;

/// Made by the source; without a place nothing is found or recorded.
class IndexSlot {
 public:
  IndexSlot() = default;
  /// key: the stream's in its set. stamp: of its own file; empty where all streams lie in one.
  explicit IndexSlot(uint64_t key, const FileStamp& stamp = {})
      : placed_(true), key_(key), stamp_(stamp) {}

  /// Finds the stream's coefficients, where some are kept, else its index; records there what is
  /// made of the stream. The stores must outlive this.
  void use(IndexStore& store, CoefficientStore* coefficients = nullptr);
  /// Finds the stream's index, and records nothing.
  void use(const IndexTable& table) {
    if (placed_) found_ = table.find(key_, stamp_);
  }

  /// What was found, which may be another stream's; empty when there is none.
  std::span<const uint8_t> index() const {
    return found_ ? std::span<const uint8_t>(*found_) : std::span<const uint8_t>();
  }
  /// Whether an index of the stream is to be made where index() is not its own: there is a store,
  /// which does not know the stream as one that has none.
  bool records() const { return store_ != nullptr && !(found_ && found_->empty()); }
  /// Only where records().
  void record(std::span<const uint8_t> index) const { store_->record(key_, index, stamp_); }

  /// Whether coefficients of the stream are kept, or are to be. If so `kept` gets what the decoder
  /// needs for it, good while this lives.
  bool use_kept(JpegKept& kept) const;
  /// Keeps what was made; only where it was wanted.
  void keep(const JpegKept& kept) const;

 private:
  bool placed_ = false;
  uint64_t key_ = 0;
  FileStamp stamp_{};
  StoredIndex found_{};
  IndexStore* store_ = nullptr;
  StoredIndex kept_{};
  CoefficientStore* coefficients_ = nullptr;
};

}  // namespace composer
