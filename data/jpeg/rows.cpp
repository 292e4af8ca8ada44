#include "data/jpeg/rows.h"

#include <algorithm>

#include "data/jpeg/bits_simd.h"
#include "data/jpeg/kept_rows.h"

namespace composer {
namespace {

constexpr size_t kUnstuffMargin = 32;

/// Makes room for the bytes without stuffing and for the overshoot of a walk.
void make_room(std::vector<uint8_t>& bits, size_t stuffed) {
  fit(bits, stuffed + kUnstuffMargin + JpegWalker::kOvershoot);
}

int16_t* zeros(std::vector<int16_t>& blocks, size_t count) {
  if (blocks.size() < count) blocks.resize(count);
  std::fill_n(blocks.begin(), count, int16_t{0});
  return blocks.data();
}

}  // namespace

bool lay_out(const JpegScan& scan, HuffmanTables& tables, McuLayout& layout) {
  layout.blocks = scan.blocks;
  for (size_t i = 0; i < static_cast<size_t>(scan.blocks); ++i) {
    const JpegBlock& block = scan.block[i];
    const HuffmanTable* dc = tables.find(false, block.dc_table, scan.dc_tables[block.dc_table]);
    const HuffmanTable* ac = tables.find(true, block.ac_table, scan.ac_tables[block.ac_table]);
    if (dc == nullptr || ac == nullptr) return false;
    layout.block[i] = {dc, ac, block.component};
  }
  return true;
}

void IndexedRows::start(const JpegScan& scan, const McuLayout& layout, const JpegIndexReader& index,
                        const JpegMcus& mcus) {
  scan_ = &scan, layout_ = &layout, index_ = &index, mcus_ = mcus;
  row_ = mcus.top;
  second_ready_ = false;
  row_blocks_ = static_cast<size_t>((mcus.right - mcus.left) * layout.blocks * 64);
  zeros(blocks_, 2 * row_blocks_);
  uint64_t most = 0;
  for (int64_t row = mcus.top; row < mcus.bottom; ++row) {
    const uint64_t begin = index.row(row).bit / 8, end = (index.row(row + 1).bit + 7) / 8;
    if (begin <= end && end <= scan.codes.size()) most = std::max(most, end - begin);
  }
  for (auto& bits : bits_) make_room(bits, most);
}

bool IndexedRows::seek(int64_t row, int lane) {
  const JpegRowStart from = index_->row(row), to = index_->row(row + 1);
  const uint64_t begin = from.bit / 8, end = (to.bit + 7) / 8;
  if (begin > end || end > scan_->codes.size()) return false;
  // The row's last byte may be 0xFF, followed by its stuffing.
  const uint64_t stuffing = end < scan_->codes.size() && end > begin ? 1 : 0;
  auto& bits = bits_[static_cast<size_t>(lane)];
  const auto got =
      unstuff(scan_->codes.subspan(begin, end - begin + stuffing), bits.data(), nullptr);
  auto& walker = walkers_[static_cast<size_t>(lane)];
  walker.start(bits.data(), got.written, static_cast<int>(from.bit % 8), from.predictors);
  return true;
}

int16_t* IndexedRows::next_row() noexcept {
  if (second_ready_) {
    second_ready_ = false;
    return blocks_.data() + row_blocks_;
  }
  if (row_ >= mcus_.bottom || !seek(row_, 0)) return nullptr;
  auto& [first, second] = walkers_;
  const int64_t wanted = mcus_.right - mcus_.left;
  if (row_ + 1 == mcus_.bottom) {
    first.skip(*layout_, mcus_.left);
    first.decode(*layout_, wanted, blocks_.data());
    ++row_;
    return first.good() ? blocks_.data() : nullptr;
  }
  if (!seek(row_ + 1, 1)) return nullptr;
  JpegWalker::skip(*layout_, mcus_.left, first, second);
  JpegWalker::decode(*layout_, wanted, first, blocks_.data(), second, blocks_.data() + row_blocks_);
  row_ += 2;
  second_ready_ = true;
  return first.good() && second.good() ? blocks_.data() : nullptr;
}

void WalkedRows::start(const JpegScan& scan, const McuLayout& layout, const JpegMcus& mcus,
                       JpegIndexWriter* writer, KeptWriter* keeper) {
  scan_ = &scan, layout_ = &layout, writer_ = writer, keeper_ = keeper, mcus_ = mcus;
  row_ = 0;
  removed_.clear();
  removed_before_ = 0;
  make_room(bits_, scan.codes.size());
  const auto got = unstuff(scan.codes, bits_.data(), writer != nullptr ? &removed_ : nullptr);
  walker_.start(bits_.data(), got.written, 0, {});
  zeros(blocks_, coefficients(keeper != nullptr ? scan.mcus_across : mcus.right - mcus.left));
}

/// The walker's position in the stuffed codes.
uint64_t WalkedRows::stuffed_bit() {
  const uint64_t bit = walker_.position();
  while (removed_before_ < removed_.size() && removed_[removed_before_] <= bit / 8)
    ++removed_before_;
  return bit + 8 * removed_before_;
}

void WalkedRows::begin_row() {
  if (writer_ != nullptr && !writer_->add({stuffed_bit(), walker_.predictors()})) writer_ = nullptr;
}

size_t WalkedRows::coefficients(int64_t mcus) const {
  return static_cast<size_t>(mcus * layout_->blocks * 64);
}

/// Decodes a whole row for the keeper.
void WalkedRows::keep_row() {
  walker_.decode(*layout_, scan_->mcus_across, blocks_.data());
  if (walker_.good()) keeper_->add(blocks_.data());
}

/// Passes a row that is not wanted.
void WalkedRows::pass_row() {
  begin_row();
  if (keeper_ != nullptr) {
    keep_row();
    zeros(blocks_, coefficients(scan_->mcus_across));
  } else {
    walker_.skip(*layout_, scan_->mcus_across);
  }
}

int16_t* WalkedRows::next_row() noexcept {
  if (row_ >= mcus_.bottom) return nullptr;
  for (; row_ < mcus_.top && walker_.good(); ++row_) pass_row();
  begin_row();
  int16_t* wanted = blocks_.data();
  if (keeper_ != nullptr) {
    keep_row();
    const size_t begin = coefficients(mcus_.left), end = coefficients(mcus_.right);
    std::fill_n(wanted, begin, int16_t{0});
    std::fill(wanted + end, wanted + coefficients(scan_->mcus_across), int16_t{0});
    wanted += begin;
  } else {
    walker_.skip(*layout_, mcus_.left);
    walker_.decode(*layout_, mcus_.right - mcus_.left, wanted);
    walker_.skip(*layout_, scan_->mcus_across - mcus_.right);
  }
  ++row_;
  return walker_.good() ? wanted : nullptr;
}

bool WalkedRows::finish() {
  // The reader of the last row may have left coefficients in it.
  if (keeper_ != nullptr) zeros(blocks_, coefficients(scan_->mcus_across));
  for (; row_ < scan_->mcu_rows && walker_.good(); ++row_) pass_row();
  if (walker_.good()) begin_row();
  return walker_.good();
}

}  // namespace composer
