#include "data/jpeg/index.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace composer {
namespace {

constexpr size_t kHead = 16, kEntry = 8;
constexpr char kKind = 'I';
constexpr int kPositionBits = 28, kPredictorBits = 12;

struct Head {
  char magic, kind;
  uint8_t version, blocks;
  uint16_t mcu_rows, mcus_across;
  uint32_t stream_bytes, code_bytes;
};
static_assert(sizeof(Head) == kHead);

}  // namespace

std::array<uint8_t, kHead> jpeg_table_head(char kind, const JpegScan& scan, size_t stream_bytes) {
  return std::bit_cast<std::array<uint8_t, kHead>>(
      Head{.magic = 'J',
           .kind = kind,
           .version = 1,
           .blocks = static_cast<uint8_t>(scan.blocks),
           .mcu_rows = static_cast<uint16_t>(scan.mcu_rows),
           .mcus_across = static_cast<uint16_t>(scan.mcus_across),
           .stream_bytes = static_cast<uint32_t>(stream_bytes),
           .code_bytes = static_cast<uint32_t>(scan.codes.size())});
}

JpegIndexWriter::JpegIndexWriter(const JpegScan& scan, size_t stream_bytes,
                                 std::vector<uint8_t>& out)
    : out_(out) {
  const auto head = jpeg_table_head(kKind, scan, stream_bytes);
  out_.reserve(kHead + kEntry * (static_cast<size_t>(scan.mcu_rows) + 1));
  out_.assign(head.begin(), head.end());
}

bool JpegIndexWriter::add(const JpegRowStart& row) {
  if (row.bit >> kPositionBits != 0) return false;
  uint64_t entry = row.bit;
  int shift = kPositionBits;
  for (const uint32_t predictor : row.predictors) {
    constexpr uint32_t kHalf = 1 << (kPredictorBits - 1);
    const uint32_t shifted = predictor + kHalf;
    if (shifted >> kPredictorBits != 0) return false;
    entry |= static_cast<uint64_t>(predictor & (2 * kHalf - 1)) << shift;
    shift += kPredictorBits;
  }
  const auto bytes = std::bit_cast<std::array<uint8_t, kEntry>>(entry);
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  return true;
}

std::optional<JpegIndexReader> JpegIndexReader::open(const JpegScan& scan, size_t stream_bytes,
                                                     std::span<const uint8_t> index) {
  const auto rows = static_cast<size_t>(scan.mcu_rows) + 1;
  if (index.size() != kHead + kEntry * rows) return {};
  if (!std::ranges::equal(index.first(kHead), jpeg_table_head(kKind, scan, stream_bytes)))
    return {};
  JpegIndexReader reader;
  reader.rows_ = index.subspan(kHead);
  return reader;
}

JpegRowStart JpegIndexReader::row(int64_t row) const {
  uint64_t entry;
  std::memcpy(&entry, rows_.data() + static_cast<size_t>(row) * kEntry, kEntry);
  JpegRowStart start;
  start.bit = entry & ((1u << kPositionBits) - 1);
  for (size_t i = 0; i < start.predictors.size(); ++i) {
    const auto high = static_cast<uint32_t>(entry >> (kPositionBits + kPredictorBits * i));
    constexpr int kUnused = 32 - kPredictorBits;
    start.predictors[i] = static_cast<uint32_t>(static_cast<int32_t>(high << kUnused) >> kUnused);
  }
  return start;
}

}  // namespace composer
