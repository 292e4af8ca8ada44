#include "data/jpeg/requantize.h"

#include <algorithm>
#include <stdexcept>

#include "data/jpeg/header.h"
#include "data/jpeg/index.h"
#include "data/jpeg/jpeg.h"

namespace composer {
namespace {

constexpr size_t kLuma = 0;
/// An upper limit of an MCU's bytes.
constexpr size_t kMcuRoom = 8192;

/// The codes of a DHT segment's table, by symbol.
void read_codes(std::span<const uint8_t> table, JpegCodes& codes) {
  uint32_t code = 0;
  size_t next = 16;
  for (int length = 1; length <= 16; ++length, code <<= 1)
    for (int i = 0; i < table[static_cast<size_t>(length) - 1]; ++i)
      codes[table[next++]] = {static_cast<uint16_t>(code++), static_cast<int16_t>(length)};
}

/// Offset of height and width in a header by libjpeg.
size_t find_size(std::span<const uint8_t> header) {
  for (size_t at = 2; const uint8_t marker = next_marker(header, at);) {
    if (marker == kSof0) return at + 3;
    at += static_cast<size_t>(header[at] << 8 | header[at + 1]);
  }
  throw std::logic_error("a JPEG header without a frame");
}

}  // namespace

std::optional<RequantizedJpeg> JpegRequantizer::run(std::span<const uint8_t> bytes, int quality) {
  if (!start(bytes, quality)) return {};
  if (scan_.chroma_step == 2)
    add_halved_rows();
  else
    add_full_rows();
  if (!rows_.finish()) return {};
  return finish();
}

bool JpegRequantizer::start(std::span<const uint8_t> bytes, int quality) {
  if (requantize_kernels().scale == nullptr) return false;
  if (!scan_.parse(bytes) || scan_.chroma_step == 0) return false;
  if (!lay_out(scan_, tables_, layout_)) return false;
  rows_.start(scan_, layout_, {0, 0, scan_.mcu_rows, scan_.mcus_across}, nullptr);

  make_header(quality);
  for (size_t c = 0; c < components_.size(); ++c) {
    auto& component = components_[c];
    component.predictor = 0;
    for (size_t k = 0; k < 64; ++k) {
      component.source[k] = scan_.quantization[c][k];
      const auto wanted = static_cast<float>(header_scan_.quantization[c][k]);
      const bool halves = scan_.chroma_step == 1 && c != kLuma;
      component.factors[k] = (halves ? 1 : component.source[k]) / wanted;
    }
  }
  out_.assign(header_.begin(), header_.end());
  put_jpeg_size(scan_.size, out_.data() + size_at_);
  written_ = out_.size();
  out_.resize(out_.size() + bytes.size());
  bits_ = {};
  row_starts_.clear();
  return true;
}

/// Makes the header that libjpeg writes.
void JpegRequantizer::make_header(int quality) {
  if (quality == quality_) return;
  Image gray;
  gray.resize(16, 16, 3);
  std::ranges::fill(gray.pixels, uint8_t{128});
  header_ = encode_jpeg(gray.view(), quality);
  if (!header_scan_.parse(header_) || header_scan_.chroma_step != 2)
    throw std::logic_error("libjpeg writes another kind of JPEG stream");
  for (const size_t kind : {0, 1}) {
    read_codes(header_scan_.dc_tables[kind], dc_codes_[kind]);
    read_codes(header_scan_.ac_tables[kind], ac_codes_[kind]);
  }
  header_.resize(header_.size() - header_scan_.codes.size());
  size_at_ = find_size(header_);
  quality_ = quality;
}

void JpegRequantizer::add_halved_rows() {
  const auto blocks = static_cast<size_t>(6 * scan_.mcus_across);
  while (int16_t* const row = rows_.next_row()) {
    begin_row();
    for (size_t i = 0; i < blocks; ++i) {
      if (i % 6 == 0) make_room();
      add_block(scan_.block[i % 6].component, row + 64 * i);
    }
    std::fill_n(row, 64 * blocks, int16_t{0});
  }
}

void JpegRequantizer::add_full_rows() {
  const auto count = static_cast<size_t>(3 * 64 * scan_.mcus_across);
  above_.resize(count);
  while (int16_t* row = rows_.next_row()) {
    std::copy_n(row, count, above_.begin());
    std::fill_n(row, count, int16_t{0});
    row = rows_.next_row();
    add_full_row(above_.data(), row);
    if (row == nullptr) return;
    std::fill_n(row, count, int16_t{0});
  }
}

/// below: null after the last row of the image.
void JpegRequantizer::add_full_row(const int16_t* above, const int16_t* below) {
  begin_row();
  const auto across = static_cast<size_t>(scan_.mcus_across);
  for (size_t x = 0; x < across; x += 2) {
    make_room();
    const bool right = x + 1 < across;
    const int16_t* const mcus[] = {above + 192 * x, right ? above + 192 * (x + 1) : nullptr,
                                   below == nullptr ? nullptr : below + 192 * x,
                                   below != nullptr && right ? below + 192 * (x + 1) : nullptr};
    for (const int16_t* const mcu : mcus)
      mcu == nullptr ? add_outer_block(kLuma) : add_block(kLuma, mcu);
    for (const size_t component : {1, 2}) {
      std::array<const int16_t*, 4> blocks;
      for (size_t i = 0; i < 4; ++i) {
        if (mcus[i] != nullptr) {
          blocks[i] = mcus[i] + 64 * component;
        } else {  // as bright as the block beside or above it
          outer_[i].fill(0);
          outer_[i][0] = blocks[i == 1 || (i == 3 && below != nullptr) ? i - 1 : i - 2][0];
          blocks[i] = outer_[i].data();
        }
      }
      add_halved_block(component, blocks);
    }
  }
}

void JpegRequantizer::add_block(size_t component, const int16_t* block) {
  std::array<int16_t, 64> out;
  const auto present =
      requantize_kernels().scale(block, components_[component].factors, out.data());
  encode(component, out.data(), present);
}

void JpegRequantizer::add_halved_block(size_t component,
                                       const std::array<const int16_t*, 4>& blocks) {
  std::array<int16_t, 64> out;
  const auto& [source, factors, predictor] = components_[component];
  const auto present = requantize_kernels().halve(blocks, source, factors, out.data());
  encode(component, out.data(), present);
}

void JpegRequantizer::add_outer_block(size_t component) {
  std::array<int16_t, 64> out{};
  out[0] = static_cast<int16_t>(components_[component].predictor);
  encode(component, out.data(), 0);
}

/// block: in zig-zag order. present: its coefficients that are not 0, a bit each.
void JpegRequantizer::encode(size_t component, const int16_t* block, uint64_t present) {
  const size_t kind = component == kLuma ? 0 : 1;
  auto& predictor = components_[component].predictor;
  const int32_t difference = block[0] - static_cast<int32_t>(predictor);
  predictor = static_cast<uint32_t>(int32_t{block[0]});
  bits_.to = out_.data() + written_;
  requantize_kernels().encode(bits_, dc_codes_[kind], ac_codes_[kind], difference, block, present);
  written_ = static_cast<size_t>(bits_.to - out_.data());
}

/// Writes the whole bytes among bits_.
void JpegRequantizer::put_whole_bytes() {
  for (; bits_.count >= 8; bits_.count -= 8) {
    const auto byte = static_cast<uint8_t>(bits_.bits >> (bits_.count - 8));
    out_[written_++] = byte;
    if (byte == 0xFF) out_[written_++] = 0;
  }
}

void JpegRequantizer::make_room() {
  if (out_.size() - written_ < kMcuRoom) out_.resize(2 * out_.size() + kMcuRoom);
}

void JpegRequantizer::begin_row() {
  make_room();
  put_whole_bytes();
  const auto& [luma, blue, red] = components_;
  row_starts_.push_back({(written_ - header_.size()) * 8 + static_cast<size_t>(bits_.count),
                         {luma.predictor, blue.predictor, red.predictor}});
}

RequantizedJpeg JpegRequantizer::finish() {
  begin_row();  // the end
  if (const int filling = 8 - bits_.count; filling < 8) {
    bits_.bits = bits_.bits << filling | ((1U << filling) - 1);
    bits_.count = 8;
    put_whole_bytes();
  }
  out_[written_++] = 0xFF;
  out_[written_++] = kEoi;

  RequantizedJpeg made{.size = scan_.size,
                       .bytes = {out_.begin(), out_.begin() + static_cast<long>(written_)},
                       .index = {}};
  JpegScan scan;
  if (!scan.parse(made.bytes)) throw std::logic_error("a JPEG stream that cannot be read");
  JpegIndexWriter writer(scan, made.bytes.size(), made.index);
  for (const auto& row : row_starts_)
    if (!writer.add(row)) {
      made.index.clear();
      break;
    }
  return made;
}

}  // namespace composer
