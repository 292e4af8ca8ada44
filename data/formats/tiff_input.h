// A TIFF file in memory, opened by libtiff.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

typedef struct tiff TIFF;  // libtiff's

namespace composer {

/// libtiff's complaints come here; nothing is printed.
class TiffInput {
 public:
  explicit TiffInput(std::span<const uint8_t> bytes);
  ~TiffInput();

  /// Null when it cannot be opened: see error().
  TIFF* tiff() const;
  std::span<const uint8_t> bytes() const;
  /// The first since the opening or forget(); empty when there is none.
  const std::string& error() const;
  const std::string& warnings() const;  ///< one a line
  void forget();

 private:
  struct State;
  std::unique_ptr<State> state_;  // whose address libtiff knows
};

}  // namespace composer
