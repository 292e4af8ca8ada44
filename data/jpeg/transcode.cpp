#include "data/jpeg/transcode.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "data/jpeg/header.h"
#include "data/jpeg/libjpeg.h"
#include "data/pixels/orient.h"

namespace composer {
namespace {

/// The next marker, TEM, restart and SOI markers skipped; 0 at the end.
uint8_t next_segment(std::span<const uint8_t> bytes, size_t& at) {
  uint8_t code = 0;
  do {
    code = next_marker(bytes, at);
  } while (code == kTem || (code >= kRst0 && code <= kSoi));
  return code;
}

/// The steps of an EXIF orientation: first mirror rows and columns, then swap them.
struct Turn {
  bool mirror_rows = false;     ///< the top becomes the bottom
  bool mirror_columns = false;  ///< left becomes right
  bool transpose = false;
};

Turn turn_of(int orientation) {
  return {bottom_up(orientation), right_to_left(orientation), turned(orientation)};
}

struct Transcoder {
  jpeg_decompress_struct in{};
  jpeg_compress_struct out{};
  LibjpegErrors errors{};
  std::array<jvirt_barray_ptr, 4> turned{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  ~Transcoder() {
    jpeg_destroy_compress(&out);
    jpeg_destroy_decompress(&in);
    std::free(bytes);
  }
};

bool can_be_turned(const jpeg_decompress_struct& in, const Turn& turn) {
  const auto mcu_width = static_cast<JDIMENSION>(in.max_h_samp_factor * DCTSIZE);
  const auto mcu_height = static_cast<JDIMENSION>(in.max_v_samp_factor * DCTSIZE);
  return (!turn.mirror_columns || in.image_width % mcu_width == 0) &&
         (!turn.mirror_rows || in.image_height % mcu_height == 0);
}

/// True if a progressive stream has all its scans: otherwise libjpeg smooths the blocks.
bool is_complete(const jpeg_decompress_struct& in) {
  if (in.coef_bits == nullptr) return true;
  for (int c = 0; c < in.num_components; ++c) {
    for (int k = 0; k < DCTSIZE2; ++k)
      if (in.coef_bits[c][k] != 0) return false;
  }
  return true;
}

/// A mirrored cosine of odd frequency changes its sign.
void turn_block(const JCOEF* in, const Turn& turn, JCOEF* out) {
  for (int v = 0; v < DCTSIZE; ++v) {
    for (int u = 0; u < DCTSIZE; ++u) {
      const bool negative = (turn.mirror_rows && v % 2 == 1) != (turn.mirror_columns && u % 2 == 1);
      const JCOEF value = in[v * DCTSIZE + u];
      out[turn.transpose ? u * DCTSIZE + v : v * DCTSIZE + u] =
          static_cast<JCOEF>(negative ? -value : value);
    }
  }
}

void turn_tables(jpeg_compress_struct& out) {
  for (JQUANT_TBL* table : out.quant_tbl_ptrs) {
    if (table == nullptr) continue;
    for (int v = 0; v < DCTSIZE; ++v)
      for (int u = 0; u < v; ++u)
        std::swap(table->quantval[v * DCTSIZE + u], table->quantval[u * DCTSIZE + v]);
  }
}

JDIMENSION round_up(JDIMENSION value, int to) {
  const auto step = static_cast<JDIMENSION>(to);
  return (value + step - 1) / step * step;
}

/// Memory for the turned blocks of each component.
void request_blocks(Transcoder& t, const Turn& turn) {
  auto codec = reinterpret_cast<j_common_ptr>(&t.in);
  for (int c = 0; c < t.in.num_components; ++c) {
    const jpeg_component_info& component = t.in.comp_info[c];
    JDIMENSION width = round_up(component.width_in_blocks, component.h_samp_factor);
    JDIMENSION height = round_up(component.height_in_blocks, component.v_samp_factor);
    int rows_at_once = component.v_samp_factor;
    if (turn.transpose) {
      std::swap(width, height);
      rows_at_once = component.h_samp_factor;
    }
    t.turned[static_cast<size_t>(c)] = (*t.in.mem->request_virt_barray)(
        codec, JPOOL_IMAGE, TRUE, width, height, static_cast<JDIMENSION>(rows_at_once));
  }
}

JBLOCKROW block_row(Transcoder& t, jvirt_barray_ptr blocks, JDIMENSION row, bool write) {
  auto codec = reinterpret_cast<j_common_ptr>(&t.in);
  return (*t.in.mem->access_virt_barray)(codec, blocks, row, 1, write ? TRUE : FALSE)[0];
}

/// Fills the turned rows from the first to the last, as libjpeg's arrays require.
void turn_component(Transcoder& t, const Turn& turn, int c, jvirt_barray_ptr blocks) {
  const JDIMENSION width = t.in.comp_info[c].width_in_blocks;
  const JDIMENSION height = t.in.comp_info[c].height_in_blocks;
  const JDIMENSION rows = turn.transpose ? width : height;
  const JDIMENSION columns = turn.transpose ? height : width;
  for (JDIMENSION i = 0; i < rows; ++i) {
    JBLOCKROW to = block_row(t, t.turned[static_cast<size_t>(c)], i, true);
    for (JDIMENSION j = 0; j < columns; ++j) {
      JDIMENSION y = turn.transpose ? j : i, x = turn.transpose ? i : j;
      if (turn.mirror_rows) y = height - 1 - y;
      if (turn.mirror_columns) x = width - 1 - x;
      turn_block(block_row(t, blocks, y, false)[x], turn, to[j]);
    }
  }
}

void copy_parameters(Transcoder& t, const Turn& turn) {
  jpeg_copy_critical_parameters(&t.in, &t.out);
  if (!turn.transpose) return;
  std::swap(t.out.image_width, t.out.image_height);
  for (int c = 0; c < t.out.num_components; ++c)
    std::swap(t.out.comp_info[c].h_samp_factor, t.out.comp_info[c].v_samp_factor);
  turn_tables(t.out);
}

/// libjpeg may jump out of this function: no object here may need its destructor.
bool transcode_with(Transcoder& t, std::span<const uint8_t> bytes, const Turn& turn) {
  jpeg_create_decompress(&t.in);
  jpeg_create_compress(&t.out);
  jpeg_mem_src(&t.in, bytes.data(), bytes.size());
  jpeg_read_header(&t.in, TRUE);
  if (t.in.num_components != 1 && t.in.num_components != 3) return false;
  const bool turns = turn.mirror_rows || turn.mirror_columns || turn.transpose;
  if (!can_be_turned(t.in, turn)) return false;
  if (turns) request_blocks(t, turn);
  jvirt_barray_ptr* blocks = jpeg_read_coefficients(&t.in);
  if (!is_complete(t.in)) return false;
  copy_parameters(t, turn);
  for (int c = 0; turns && c < t.in.num_components; ++c) turn_component(t, turn, c, blocks[c]);
  jpeg_mem_dest(&t.out, &t.bytes, &t.size);
  jpeg_write_coefficients(&t.out, turns ? t.turned.data() : blocks);
  jpeg_finish_compress(&t.out);
  return true;
}

}  // namespace

std::span<const uint8_t> first_jpeg(std::span<const uint8_t> bytes) {
  size_t at = 2;
  while (const uint8_t code = next_segment(bytes, at)) {
    if (code == kEoi) return bytes.first(at);
    if (at + 1 >= bytes.size()) break;
    at += static_cast<size_t>(std::max(2, bytes[at] << 8 | bytes[at + 1]));
  }
  return bytes;
}

bool has_one_whole_scan(std::span<const uint8_t> stream) {
  size_t at = 2;
  while (const uint8_t code = next_segment(stream, at)) {
    if (code == kEoi || at + 1 >= stream.size()) return false;
    at += static_cast<size_t>(std::max(2, stream[at] << 8 | stream[at + 1]));
    if (code == kSos) return next_segment(stream, at) == kEoi && at == stream.size();
  }
  return false;
}

std::optional<std::vector<uint8_t>> transcode_jpeg(std::span<const uint8_t> bytes,
                                                   int orientation) {
  Transcoder t;
  t.errors.strict = true;
  t.in.err = t.out.err = install(t.errors);
  if (setjmp(t.errors.jump) != 0) return std::nullopt;
  if (!transcode_with(t, bytes, turn_of(orientation))) return std::nullopt;
  return std::vector<uint8_t>(t.bytes, t.bytes + t.size);
}

}  // namespace composer
