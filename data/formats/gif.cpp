#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "data/formats/formats.h"

namespace composer {
namespace {

/// The most pixels that a byte of LZW codes gives: 4096 for a code of 12 bits.
constexpr int64_t kMostRepetition = 2731;

constexpr FormatErrors kGif{"GIF"};

class Decoder {
 public:
  explicit Decoder(std::span<const uint8_t> bytes) : rest_(bytes) {
    int error = 0;
    gif_ = DGifOpen(&rest_, read, &error);
    if (gif_ == nullptr) kGif.refuse(explain(error));
  }
  ~Decoder() { DGifCloseFile(gif_, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  void decode(Image& out) {
    go_to_first_frame();
    const GifImageDesc& frame = gif_->Image;
    if (frame.Width <= 0 || frame.Height <= 0) kGif.refuse("a frame without pixels");
    const int64_t height = std::max<int64_t>(gif_->SHeight, int64_t{frame.Top} + frame.Height);
    const int64_t width = std::max<int64_t>(gif_->SWidth, int64_t{frame.Left} + frame.Width);
    kGif.check_size(height, width);
    const int64_t most = kMostRepetition * static_cast<int64_t>(rest_.size());
    if (int64_t{frame.Height} * frame.Width > most) kGif.refuse("the data end too early");
    kGif.check_canvas({frame.Height, frame.Width}, {height, width}, most);
    read_colours();
    out.resize(height, width, 3);
    fill(out);
    read_pixels(out);
  }

 private:
  static int read(GifFileType* gif, GifByteType* to, int count) {
    auto& rest = *static_cast<std::span<const uint8_t>*>(gif->UserData);
    const size_t got = std::min(rest.size(), static_cast<size_t>(std::max(count, 0)));
    if (got > 0) std::memcpy(to, rest.data(), got);
    rest = rest.subspan(got);
    return static_cast<int>(got);
  }

  static std::string explain(int error) {
    if (error == D_GIF_ERR_READ_FAILED) return "the data end too early";
    const char* text = GifErrorString(error);
    return text != nullptr ? text : "unreadable";
  }

  void check(int status) const {
    if (status == GIF_ERROR) kGif.refuse(explain(gif_->Error));
  }

  void go_to_first_frame() {
    for (;;) {
      GifRecordType type = UNDEFINED_RECORD_TYPE;
      check(DGifGetRecordType(gif_, &type));
      if (type == TERMINATE_RECORD_TYPE) kGif.refuse("there is no frame in it");
      if (type == IMAGE_DESC_RECORD_TYPE) return check(DGifGetImageDesc(gif_));
      if (type == EXTENSION_RECORD_TYPE) read_extension();
    }
  }

  void read_extension() {
    int code = 0;
    GifByteType* block = nullptr;  // its length, then the bytes
    check(DGifGetExtension(gif_, &code, &block));
    while (block != nullptr) {
      if (code == GRAPHICS_EXT_FUNC_CODE && block[0] >= 4)
        transparent_ = (block[1] & 1) != 0 ? block[4] : -1;
      check(DGifGetExtensionNext(gif_, &block));
    }
  }

  void read_colours() {
    const ColorMapObject* map =
        gif_->Image.ColorMap != nullptr ? gif_->Image.ColorMap : gif_->SColorMap;
    for (size_t i = 0; i < colours_.size(); ++i) {
      const auto gray = static_cast<uint8_t>(i);
      colours_[i] = {gray, gray, gray};
      if (map == nullptr || i >= static_cast<size_t>(map->ColorCount)) continue;
      const GifColorType& colour = map->Colors[i];
      colours_[i] = {colour.Red, colour.Green, colour.Blue};
    }
  }

  void fill(Image& out) const {
    const GifImageDesc& frame = gif_->Image;
    if (frame.Height == out.height && frame.Width == out.width) return;
    const auto& colour = colours_[static_cast<size_t>(std::max(transparent_, 0))];
    uint8_t* pixel = out.pixels.data();
    for (int64_t i = 0; i < out.height * out.width; ++i, pixel += 3)
      std::copy(colour.begin(), colour.end(), pixel);
  }

  void read_row(int64_t y, Image& out) {
    check(DGifGetLine(gif_, row_.data(), gif_->Image.Width));
    uint8_t* pixel = out.row(gif_->Image.Top + y) + int64_t{gif_->Image.Left} * 3;
    for (const uint8_t index : row_) {
      std::copy(colours_[index].begin(), colours_[index].end(), pixel);
      pixel += 3;
    }
  }

  void read_pixels(Image& out) {
    row_.resize(static_cast<size_t>(gif_->Image.Width));
    struct Pass {
      int64_t first, step;
    };
    static constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}}, kPlain[] = {{0, 1}};
    const auto passes =
        gif_->Image.Interlace ? std::span<const Pass>(kInterlaced) : std::span<const Pass>(kPlain);
    for (const Pass& pass : passes)
      for (int64_t y = pass.first; y < gif_->Image.Height; y += pass.step) read_row(y, out);
  }

  std::span<const uint8_t> rest_;
  GifFileType* gif_ = nullptr;
  int transparent_ = -1;
  std::array<std::array<uint8_t, 3>, 256> colours_{};
  std::vector<uint8_t> row_;
};

}  // namespace

void decode_gif(std::span<const uint8_t> bytes, Image& out) { Decoder(bytes).decode(out); }

}  // namespace composer
