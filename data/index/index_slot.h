// The entry of one JPEG stream in the crop index and the coefficient cache of its set.
#pragma once

#include <cstdint>
#include <span>

#include "data/index/index_store.h"
#include "data/jpeg/decoder.h"

namespace composer {

class CoefficientStore;

/// Made by the source. One without a key finds and records nothing.
class IndexSlot {
 public:
  IndexSlot() = default;
  /// key: the stream's key in its set. stamp: the stamp of its own file; empty when all streams lie
  /// in one file.
  explicit IndexSlot(uint64_t key, const FileStamp& stamp = {})
      : placed_(true), key_(key), stamp_(stamp) {}

  /// Finds the stream's cached coefficients, or else its index; record() and keep() write to these
  /// stores, which must outlive this.
  void use(IndexStore& store, CoefficientStore* coefficients = nullptr);
  /// Finds the stream's index without a store to record to.
  void use(const IndexTable& table) {
    if (placed_) found_ = table.find(key_, stamp_);
  }

  /// The index that was found, possibly of another stream; empty without one.
  std::span<const uint8_t> index() const {
    return found_ ? std::span<const uint8_t>(*found_) : std::span<const uint8_t>();
  }
  /// Whether an index of the stream should be made if index() is not its own: there is a store,
  /// which does not list the stream as one without an index.
  bool records() const { return store_ != nullptr && !(found_ && found_->empty()); }
  /// Needs records().
  void record(std::span<const uint8_t> index) const { store_->record(key_, index, stamp_); }

  /// Whether coefficients of the stream are cached, or should be. If so, fills `kept` for the
  /// decoder, valid while this lives.
  bool use_kept(JpegKept& kept) const;
  /// Caches the coefficients that were made; needs kept.wanted.
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
