#include "data/jpeg/decoder.h"

#include <algorithm>
#include <array>
#include <optional>

#include "data/jpeg/codec.h"
#include "data/jpeg/jpeg.h"
#include "data/jpeg/kept_rows.h"
#include "data/jpeg/reconstruct_simd.h"
#include "data/jpeg/rows.h"
#include "data/jpeg/scan.h"

namespace composer {
namespace {

/// The MCUs that contain a region, as an image of their own.
struct McuBox {
  JpegRegion region;
  JpegMcus mcus;
  ImageSize size;   ///< in pixels at full size, cut at the image's edges
  ImageSize first;  ///< its first pixel in the image at 1/scale

  McuBox(const JpegScan& scan, const JpegRequest& request) : region(scan.size, request) {
    const int64_t height = scan.mcu_height / request.scale, width = scan.mcu_width / request.scale;
    const Box& box = region.around;
    mcus.top = box.top / height, mcus.left = box.left / width;
    mcus.bottom = (box.top + box.height + height - 1) / height;
    mcus.right = (box.left + box.width + width - 1) / width;
    size = {std::min(scan.size.height, mcus.bottom * scan.mcu_height) - mcus.top * scan.mcu_height,
            std::min(scan.size.width, mcus.right * scan.mcu_width) - mcus.left * scan.mcu_width};
    first = {mcus.top * height, mcus.left * width};
  }
};

constexpr int64_t kBlock = 8, kReadBeyond = 64;

/// Makes pixels of coefficients without libjpeg, for the streams of nearly all photographs: YCbCr
/// with full or halved chroma, decoded at full size with the accurate DCT. The pixels equal
/// libjpeg-turbo's. Keeps its memory from image to image.
class JpegReconstruction {
 public:
  /// Whether run() supports a part of this size of the scan's image.
  static bool takes(const JpegScan& scan, ImageSize part);

  /// part: the size of the image that the rows make up, mcus_across MCUs wide. wanted: in that
  /// image's pixels. False when the coefficients fail.
  bool run(const JpegScan& scan, ImageSize part, int64_t mcus_across, const Box& wanted,
           JpegCoefficients& rows, Image& pixels);

 private:
  void aim(const JpegScan& scan, int64_t mcus_across, int64_t mcu_rows);

  std::array<std::vector<uint8_t>, 3> samples_;  ///< samples of each component
  std::array<int64_t, 3> stride_{};
  std::vector<JpegTarget> targets_;  ///< targets of a row of MCUs
  std::vector<int16_t> sums_;
};

bool JpegReconstruction::takes(const JpegScan& scan, ImageSize part) {
  // libjpeg upsamples halved chroma of one or two samples differently.
  const bool wide_enough = scan.chroma_step == 1 || part.width >= 5;
  return scan.chroma_step != 0 && wide_enough && jpeg_kernels().transform != nullptr;
}

/// Allocates the samples, and sets the targets of the first row of MCUs.
void JpegReconstruction::aim(const JpegScan& scan, int64_t mcus_across, int64_t mcu_rows) {
  const int64_t step = scan.chroma_step;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t side = i == 0 ? step * kBlock : kBlock;
    stride_[i] = mcus_across * side;
    const auto bytes = static_cast<size_t>(mcu_rows * side * stride_[i] + kReadBeyond);
    fit(samples_[i], bytes);
  }
  targets_.clear();
  for (int64_t mcu = 0; mcu < mcus_across; ++mcu) {
    for (int64_t block = 0; block < step * step; ++block) {
      const int64_t y = block / step * kBlock, x = (mcu * step + block % step) * kBlock;
      targets_.push_back(
          {samples_[0].data() + y * stride_[0] + x, stride_[0], scan.quantization[0].data()});
    }
    for (const size_t i : {1, 2}) {
      targets_.push_back(
          {samples_[i].data() + mcu * kBlock, stride_[i], scan.quantization[i].data()});
    }
  }
}

bool JpegReconstruction::run(const JpegScan& scan, ImageSize part, int64_t mcus_across,
                             const Box& wanted, JpegCoefficients& rows, Image& pixels) {
  const JpegKernels& kernels = jpeg_kernels();
  const int64_t step = scan.chroma_step, mcu_height = step * kBlock;
  const int64_t chroma_height = (part.height + step - 1) / step;
  const int64_t chroma_width = (part.width + step - 1) / step;
  const int64_t end = wanted.top + wanted.height;
  const int64_t last_chroma = std::min((end - 1) / step + step - 1, chroma_height - 1);
  const int64_t mcu_rows = last_chroma / kBlock + 1;
  aim(scan, mcus_across, mcu_rows);
  const auto sums = static_cast<size_t>(2 * (chroma_width + 128));
  if (sums_.size() < sums) sums_.resize(sums);
  pixels.resize(wanted.height, wanted.width, 3);
  int64_t y = wanted.top;
  for (int64_t mcu = 0; mcu < mcu_rows; ++mcu) {
    int16_t* const blocks = rows.next_row();
    if (blocks == nullptr) return false;
    kernels.transform(blocks, static_cast<int64_t>(targets_.size()), targets_.data());
    for (JpegTarget& target : targets_)
      target.samples += target.stride * (target.stride / mcus_across);  // an MCU is a square
    // With halved chroma the last row needs the next row of MCUs.
    const int64_t known = mcu + 1 == mcu_rows ? end : (mcu + 1) * mcu_height - (step - 1);
    for (; y < std::min(known, end); ++y) {
      const int64_t near = y / step;
      const int64_t far = std::clamp<int64_t>(near + (y % 2 == 0 ? -1 : 1), 0, chroma_height - 1);
      const uint8_t *const blue = samples_[1].data(), *const red = samples_[2].data();
      const JpegColorRow row{.luma = samples_[0].data() + y * stride_[0],
                             .blue = {blue + near * stride_[1], blue + far * stride_[1]},
                             .red = {red + near * stride_[2], red + far * stride_[2]},
                             .chroma_width = chroma_width,
                             .first = wanted.left,
                             .count = wanted.width};
      uint8_t* const rgb = pixels.row(y - wanted.top);
      step == 1 ? kernels.color_full(row, rgb) : kernels.color_halved(row, sums_.data(), rgb);
    }
  }
  return true;
}

/// The ways to decode a region, and their memory, which is kept from image to image. A way that
/// fails returns nothing.
struct Ways {
  JpegScan scan;
  HuffmanTables tables;
  McuLayout layout;
  IndexedRows indexed;
  WalkedRows walked;
  KeptRows kept_rows;
  JpegReconstruction reconstruction;
  bool reconstructs = false;  ///< false: libjpeg makes the pixels of coefficients
  Image pixels;

  bool lay_out() { return composer::lay_out(scan, tables, layout); }
  bool knows(std::span<const uint8_t> bytes, std::span<const uint8_t> index) const {
    return JpegIndexReader::open(scan, bytes.size(), index).has_value();
  }

  std::optional<ImagePart> feed(const JpegRequest& request, const McuBox& box,
                                JpegCoefficients& rows, std::string* warnings) {
    const Box& wanted = box.region.wanted;
    const ImageSize& whole = box.region.whole;
    const int64_t above = wanted.top - box.first.height, before = wanted.left - box.first.width;
    const int64_t across = box.mcus.right - box.mcus.left;
    const bool accurate = request.scale == 1 && request.dct == Dct::accurate;
    if (reconstructs && accurate && JpegReconstruction::takes(scan, box.size)) {
      const Box within{above, before, wanted.height, wanted.width};
      if (!reconstruction.run(scan, box.size, across, within, rows, pixels)) return {};
      return ImagePart{pixels.view(), wanted, whole};
    }
    scan.set_size(box.size);
    const JpegFeed source{scan.header, across, scan.blocks, &rows};
    const int64_t height = above + wanted.height;
    if (!decode_jpeg_feed(source, request.scale, request.dct, height, pixels, warnings)) return {};
    return ImagePart{pixels.view().crop(above, before, wanted.height, wanted.width), wanted, whole};
  }

  std::optional<ImagePart> by_index(std::span<const uint8_t> bytes, const JpegRequest& request,
                                    std::span<const uint8_t> index, std::string* warnings) {
    const auto reader = JpegIndexReader::open(scan, bytes.size(), index);
    if (!reader) return {};
    const McuBox box(scan, request);
    indexed.start(scan, layout, *reader, box.mcus);
    return feed(request, box, indexed, warnings);
  }

  std::optional<ImagePart> by_walk(std::span<const uint8_t> bytes, const JpegRequest& request,
                                   std::vector<uint8_t>* recorded, JpegKept* kept,
                                   std::string* warnings) {
    const McuBox box(scan, request);
    std::optional<JpegIndexWriter> writer;
    if (recorded != nullptr) writer.emplace(scan, bytes.size(), *recorded);
    std::optional<KeptWriter> keeper;
    if (kept != nullptr) keeper.emplace(scan, bytes.size(), *kept);
    walked.start(scan, layout, box.mcus, writer ? &*writer : nullptr, keeper ? &*keeper : nullptr);
    auto part = feed(request, box, walked, warnings);
    const bool good = part && walked.finish();
    if (recorded != nullptr && !(good && walked.recorded())) recorded->clear();
    if (good && keeper) keeper->finish();
    return good ? part : std::nullopt;
  }

  std::optional<ImagePart> by_kept(std::span<const uint8_t> bytes, const JpegRequest& request,
                                   const JpegKept& kept, std::string* warnings) {
    const McuBox box(scan, request);
    if (!kept_rows.start(scan, bytes.size(), kept, box.mcus)) return {};
    return feed(request, box, kept_rows, warnings);
  }

  /// Decodes from cached coefficients or, unless coefficients are wanted, by the index.
  std::optional<ImagePart> by_known(std::span<const uint8_t> bytes, const JpegRequest& request,
                                    std::span<const uint8_t> index, const JpegKept* kept,
                                    std::string* warnings) {
    if (kept != nullptr && !kept->table.empty()) {
      if (auto part = by_kept(bytes, request, *kept, warnings)) return part;
      *warnings = "";
    }
    if (index.empty() || (kept != nullptr && kept->wanted) || !lay_out()) return {};
    return by_index(bytes, request, index, warnings);
  }
};

/// An image of noise, in which no coefficient is 0.
std::vector<uint8_t> noise_jpeg(int64_t height, int64_t width) {
  Image image;
  image.resize(height, width, 3);
  uint32_t state = 1;
  for (uint8_t& value : image.pixels) {
    state = state * 1664525 + 1013904223;
    value = static_cast<uint8_t>(state >> 24);
  }
  return encode_jpeg(image.view(), 90);
}

bool equal(const ImagePart& part, const Image& whole) {
  for (int64_t y = 0; y < part.box.height; ++y) {
    const uint8_t* expected = whole.view().row(part.box.top + y) + 3 * part.box.left;
    if (!std::equal(expected, expected + 3 * part.box.width, part.pixels.row(y))) return false;
  }
  return true;
}

/// The ways that gave libjpeg's pixels on a small image.
struct Proof {
  bool feed = false, reconstruction = false;
};

Proof prove() {
  if (!jpeg_feed_possible()) return {};
  const auto bytes = noise_jpeg(75, 91);
  Image whole;
  decode_jpeg(bytes, whole);
  Ways ways;
  if (!ways.scan.parse(bytes) || !ways.lay_out()) return {};
  const auto index = make_jpeg_index(bytes);
  const auto proven = [&](bool reconstructs) {
    ways.reconstructs = reconstructs;
    for (const Box& box : {Box{0, 0, 75, 91}, Box{20, 25, 30, 33}, Box{33, 50, 42, 41}}) {
      const auto part = ways.by_index(bytes, {box}, index, nullptr);
      if (!part || part->box != box || !equal(*part, whole)) return false;
    }
    return true;
  };
  return {.feed = proven(false), .reconstruction = proven(true)};
}

const Proof& proof() {
  static const Proof once = prove();
  return once;
}

}  // namespace

struct JpegDecoder::State : Ways {
  bool has_recorded = false;
};

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {}
JpegDecoder::~JpegDecoder() = default;
JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;
JpegDecoder& JpegDecoder::operator=(JpegDecoder&&) noexcept = default;

ImagePart JpegDecoder::decode(std::span<const uint8_t> bytes, const JpegRequest& request,
                              std::span<const uint8_t> index, std::vector<uint8_t>* recorded,
                              std::string* warnings, JpegKept* kept) {
  if (recorded != nullptr) recorded->clear();
  if (kept != nullptr) kept->made = false;
  state_->reconstructs = proof().reconstruction;
  state_->has_recorded = recorded != nullptr && jpeg_index_works();
  if (jpeg_index_works() && state_->scan.parse(bytes)) {
    std::string said;
    auto part = state_->by_known(bytes, request, index, kept, &said);
    if (part) state_->has_recorded = false;
    if (!part && state_->lay_out()) {
      const bool keep = kept != nullptr && kept->wanted;
      if (keep && state_->knows(bytes, index)) recorded = nullptr, state_->has_recorded = false;
      part = state_->by_walk(bytes, request, recorded, keep ? kept : nullptr, &(said = ""));
    }
    if (part && warnings != nullptr) *warnings += said;
    if (part) return *part;
  }
  return decode_jpeg_region(bytes, &request, state_->pixels, warnings);
}

bool JpegDecoder::has_recorded() const { return state_->has_recorded; }

size_t JpegDecoder::room() const { return state_->pixels.pixels.capacity(); }

std::vector<uint8_t> make_jpeg_index(std::span<const uint8_t> bytes) {
  Ways ways;
  std::vector<uint8_t> index;
  if (!ways.scan.parse(bytes) || !ways.lay_out()) return index;
  JpegIndexWriter writer(ways.scan, bytes.size(), index);
  ways.walked.start(ways.scan, ways.layout, {}, &writer);
  if (!ways.walked.finish() || !ways.walked.recorded()) index.clear();
  return index;
}

bool jpeg_index_fits(std::span<const uint8_t> bytes, std::span<const uint8_t> index) {
  JpegScan scan;
  return scan.parse(bytes) && JpegIndexReader::open(scan, bytes.size(), index).has_value();
}

bool jpeg_index_works() { return proof().feed; }

}  // namespace composer
