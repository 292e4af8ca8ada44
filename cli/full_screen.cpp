#include "cli/full_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string_view>

#include "base/terminal.h"

namespace composer {
namespace {

/// A terminal that has gone takes nothing: the next key tells.
void put(std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

FullScreen::FullScreen() : colors_(shows_colors(STDOUT_FILENO)) {
  if (termios settings{}; tcgetattr(STDIN_FILENO, &settings) == 0) {
    before_ = settings;
    settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    settings.c_cc[VMIN] = 0, settings.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &settings);
  }
  put("\x1b[?1049h\x1b[?25l");
}

FullScreen::~FullScreen() {
  put("\x1b[?25h\x1b[?1049l");
  if (before_) tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
}

FullScreen::Size FullScreen::size() const {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return {};
  return {size.ws_col, size.ws_row};
}

void FullScreen::show(const std::vector<std::string>& lines) const {
  std::string screen = "\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i)
    screen += (colors_ ? lines[i] + "\x1b[0m" : without_colors(lines[i])) + "\x1b[K" +
              (i + 1 < lines.size() ? "\r\n" : "");
  put(screen + "\x1b[J");
}

std::optional<char> FullScreen::key(double seconds) const {
  pollfd input{before_ ? STDIN_FILENO : -1, POLLIN, 0};
  if (poll(&input, 1, static_cast<int>(seconds * 1000)) <= 0) return {};
  char byte = 0;
  if (read(STDIN_FILENO, &byte, 1) == 1) return byte;
  return 'q';
}

}  // namespace composer
