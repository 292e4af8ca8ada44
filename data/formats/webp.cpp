#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "data/formats/formats.h"
#include "data/jpeg/header.h"
#include "data/pixels/orient.h"

namespace composer {
namespace {

/// Pixels per byte, far above those of photographs and drawings.
constexpr int64_t kUsualRepetition = 4096;

constexpr FormatErrors kWebp{"WebP"};

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

struct Frame : WebPIterator {
  explicit Frame(WebPDemuxer* demuxer) : WebPIterator{} {
    if (WebPDemuxGetFrame(demuxer, 1, this) == 0) kWebp.refuse("there is no frame in it");
  }
  ~Frame() { WebPDemuxReleaseIterator(this); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
};

/// EXIF's orientation; 0 without one.
int orientation_of(const WebPDemuxer* demuxer) {
  WebPChunkIterator found;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &found) == 0) return 0;
  const int orientation = exif_orientation({found.chunk.bytes, found.chunk.size});
  WebPDemuxReleaseChunkIterator(&found);
  return orientation;
}

}  // namespace

void decode_webp(std::span<const uint8_t> bytes, Image& out) {
  const WebPData data{bytes.data(), bytes.size()};
  WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
  const std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer(WebPDemuxPartial(&data, &state));
  if (demuxer == nullptr || state != WEBP_DEMUX_DONE) {
    kWebp.refuse(state == WEBP_DEMUX_PARSE_ERROR ? "its chunks are damaged"
                                                 : "the data end too early");
  }
  const int64_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  const int64_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  kWebp.check_size(height, width);
  const Frame frame(demuxer.get());
  if (frame.x_offset < 0 || frame.y_offset < 0 || frame.width <= 0 || frame.height <= 0 ||
      int64_t{frame.x_offset} + frame.width > width ||
      int64_t{frame.y_offset} + frame.height > height)
    kWebp.refuse("a frame outside its canvas");
  const int64_t usual = kUsualRepetition * static_cast<int64_t>(bytes.size());
  const bool framed = frame.width != width || frame.height != height;
  kWebp.check_canvas({frame.height, frame.width}, {height, width}, usual);
  // An image of one colour has a few bytes, whatever its size, and only the decoder can tell it
  // from damage. The decoder allocates the pixels here: pages that it never writes cost nothing.
  if (int64_t{frame.width} * frame.height > usual) {
    uint8_t* const pixels =
        WebPDecodeRGB(frame.fragment.bytes, frame.fragment.size, nullptr, nullptr);
    WebPFree(pixels);
    if (pixels == nullptr) kWebp.refuse("its pixels are damaged");
  }
  out.resize(height, width, 3);
  const int64_t stride = width * 3;
  if (framed) std::memset(out.pixels.data(), 0, static_cast<size_t>(height * stride));
  uint8_t* first = out.row(frame.y_offset) + int64_t{frame.x_offset} * 3;
  const auto room = static_cast<size_t>((frame.height - 1) * stride + int64_t{frame.width} * 3);
  // The bitstream's size must equal the frame's, or the pixels would not fit.
  int actual_width = 0, actual_height = 0;
  const bool fits =
      WebPGetInfo(frame.fragment.bytes, frame.fragment.size, &actual_width, &actual_height) != 0 &&
      actual_width == frame.width && actual_height == frame.height;
  if (!fits || WebPDecodeRGBInto(frame.fragment.bytes, frame.fragment.size, first, room,
                                 static_cast<int>(stride)) == nullptr)
    kWebp.refuse("its pixels are damaged");
  apply_orientation(out, orientation_of(demuxer.get()));
}

}  // namespace composer
