// A terminal that a command has to itself.
#pragma once

#include <termios.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace composer {

/// Takes standard output's terminal: another screen, no cursor, keys as they are pressed, Ctrl-C
/// among them. Leaves it as it was.
class FullScreen {
 public:
  FullScreen();
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  struct Size {
    int64_t columns = 80, rows = 24;
    bool operator==(const Size&) const = default;
  };
  /// At this moment.
  Size size() const;

  /// Puts lines, which fit, in place of what is there; without their colours where there shall be
  /// none (shows_colors()).
  void show(const std::vector<std::string>& lines) const;

  /// Waits for a key so many seconds; nothing when none came, 'q' too where there will be none any
  /// more.
  std::optional<char> key(double seconds) const;

 private:
  const bool colors_;
  std::optional<termios> before_;  ///< of standard input, where that is a terminal
};

}  // namespace composer
