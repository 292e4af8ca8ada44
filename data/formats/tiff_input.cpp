#include "data/formats/tiff_input.h"

#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "data/pixels/image.h"

namespace composer {

struct TiffInput::State {
  std::span<const uint8_t> bytes;
  uint64_t position = 0;
  std::string error{}, warnings{};
  TIFF* tiff = nullptr;

  static State& of(void* handle) { return *static_cast<State*>(handle); }

  static std::string said(const char* format, va_list arguments) {
    char text[200];
    std::vsnprintf(text, sizeof text, format, arguments);
    return text;
  }

  // libtiff's functions. 1 = done: its own handlers do not print.

  static int take_error(TIFF*, void* handle, const char*, const char* format, va_list arguments) {
    auto& error = of(handle).error;
    if (error.empty()) error = said(format, arguments);
    return 1;
  }

  static int take_warning(TIFF*, void* handle, const char*, const char* format, va_list arguments) {
    auto& warnings = of(handle).warnings;
    constexpr size_t kMost = 1000;
    if (warnings.size() < kMost) warnings += said(format, arguments) + '\n';
    return 1;
  }

  static tmsize_t read(thandle_t handle, void* to, tmsize_t count) {
    State& state = of(handle);
    if (state.position >= state.bytes.size() || count <= 0) return 0;
    const auto rest = state.bytes.subspan(state.position);
    const size_t got = std::min(rest.size(), static_cast<size_t>(count));
    std::memcpy(to, rest.data(), got);
    state.position += got;
    return static_cast<tmsize_t>(got);
  }

  static tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }

  static toff_t seek(thandle_t handle, toff_t offset, int from) {
    State& state = of(handle);
    const uint64_t base = from == SEEK_SET   ? 0
                          : from == SEEK_CUR ? state.position
                                             : state.bytes.size();
    return state.position = base + offset;
  }

  static int close(thandle_t) { return 0; }

  static toff_t size(thandle_t handle) { return of(handle).bytes.size(); }

  static int map(thandle_t handle, void** base, toff_t* size) {
    const auto bytes = of(handle).bytes;
    *base = const_cast<uint8_t*>(bytes.data());  // what is opened for reading is not written to
    *size = bytes.size();
    return 1;
  }

  static void unmap(thandle_t, void*, toff_t) {}
};

TiffInput::TiffInput(std::span<const uint8_t> bytes)
    : state_(std::make_unique<State>(State{.bytes = bytes})) {
  State* const state = state_.get();
  constexpr auto kMostMemory = static_cast<tmsize_t>(4 * kMaxPixels);
  TIFFOpenOptions* const options = TIFFOpenOptionsAlloc();
  if (options != nullptr) {
    TIFFOpenOptionsSetErrorHandlerExtR(options, State::take_error, state);
    TIFFOpenOptionsSetWarningHandlerExtR(options, State::take_warning, state);
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, kMostMemory);
    state->tiff = TIFFClientOpenExt("TIFF", "r", state, State::read, State::write, State::seek,
                                    State::close, State::size, State::map, State::unmap, options);
    TIFFOpenOptionsFree(options);
  }
  if (state->tiff == nullptr && state->error.empty()) state->error = "libtiff does not open it";
}

TiffInput::~TiffInput() {
  if (state_->tiff != nullptr) TIFFClose(state_->tiff);
}

TIFF* TiffInput::tiff() const { return state_->tiff; }
std::span<const uint8_t> TiffInput::bytes() const { return state_->bytes; }
const std::string& TiffInput::error() const { return state_->error; }
const std::string& TiffInput::warnings() const { return state_->warnings; }

void TiffInput::forget() {
  state_->error.clear();
  state_->warnings.clear();
}

}  // namespace composer
