#include "data/jpeg/kept_rows.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "data/jpeg/coefficients_simd.h"
#include "data/jpeg/index.h"

namespace composer {
namespace {

constexpr size_t kEndBytes = 4, kRowBytes = kEndBytes + 8;
constexpr char kKind = 'C';

uint32_t end_of(const uint8_t* row) {
  uint32_t end;
  std::memcpy(&end, row, sizeof end);
  return end;
}

}  // namespace

KeptWriter::KeptWriter(const JpegScan& scan, size_t stream_bytes, JpegKept& to)
    : row_blocks_(static_cast<size_t>(scan.mcus_across * scan.blocks)), to_(to) {
  const auto head = jpeg_table_head(kKind, scan, stream_bytes);
  to_.made_table.assign(head.begin(), head.end());
}

void KeptWriter::add(const int16_t* blocks) noexcept try {
  if (failed_) return;
  auto& rows = to_.memory;
  const size_t room = bytes_ + packed_room(row_blocks_);
  if (rows.size() < room) rows.resize(room + room / 2);
  uint8_t* const row = rows.data() + bytes_;
  const auto& kernels = coefficient_kernels();
  const size_t packed = kernels.pack(blocks, row_blocks_, row);
  bytes_ += packed;
  const auto end = static_cast<uint32_t>(bytes_);
  const uint64_t checksum = kernels.checksum({row, packed});
  auto& table = to_.made_table;
  table.resize(table.size() + kRowBytes);
  uint8_t* const entry = table.data() + table.size() - kRowBytes;
  std::memcpy(entry, &end, sizeof end);
  std::memcpy(entry + kEndBytes, &checksum, sizeof checksum);
} catch (const std::exception&) {
  failed_ = true;
}

void KeptWriter::finish() {
  to_.made = !failed_;
  to_.made_rows = {to_.memory.data(), bytes_};
}

bool KeptRows::start(const JpegScan& scan, size_t stream_bytes, const JpegKept& kept,
                     const JpegMcus& mcus) {
  const auto head = jpeg_table_head(kKind, scan, stream_bytes);
  const auto table = kept.table;
  if (table.size() != head.size() + kRowBytes * static_cast<size_t>(scan.mcu_rows)) return false;
  if (!std::ranges::equal(table.first(head.size()), head)) return false;
  const uint8_t* const rows = table.data() + head.size();
  row_ = rows + kRowBytes * static_cast<size_t>(mcus.top);
  end_ = rows + kRowBytes * static_cast<size_t>(mcus.bottom);
  begin_ = at_ = mcus.top == 0 ? 0 : end_of(row_ - kRowBytes);
  const auto blocks = static_cast<size_t>(scan.blocks);
  row_blocks_ = static_cast<size_t>(scan.mcus_across) * blocks;
  first_ = static_cast<size_t>(mcus.left) * blocks;
  count_ = static_cast<size_t>(mcus.right - mcus.left) * blocks;
  const size_t most = static_cast<size_t>(mcus.bottom - mcus.top) * packed_room(row_blocks_);
  const size_t end = end_of(end_ - kRowBytes);
  if (end < begin_ || end - begin_ > most) return false;
  fit(bytes_, end - begin_ + kUnpackMargin);
  if (blocks_.size() < 64 * count_) blocks_.resize(64 * count_);
  return kept.read(begin_, {bytes_.data(), end - begin_});
}

int16_t* KeptRows::next_row() noexcept {
  if (row_ == end_) return nullptr;
  const size_t end = end_of(row_), last = end_of(end_ - kRowBytes);
  if (end < at_ || end > last) return nullptr;
  const std::span<const uint8_t> row(bytes_.data() + (at_ - begin_), end - at_);
  const auto& kernels = coefficient_kernels();
  const uint64_t checksum = kernels.checksum(row);
  if (std::memcmp(row_ + kEndBytes, &checksum, sizeof checksum) != 0) return nullptr;
  at_ = end;
  row_ += kRowBytes;
  const bool good = kernels.unpack(row, row_blocks_, first_, count_, blocks_.data());
  return good ? blocks_.data() : nullptr;
}

}  // namespace composer
