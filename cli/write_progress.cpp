#include "cli/write_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>

#include "base/log.h"
#include "base/text.h"

namespace composer {

WriteProgress::WriteProgress()
    : terminal_(::isatty(STDERR_FILENO) == 1), next_(terminal_ ? 0 : begin_ + 5) {}

WriteProgress::~WriteProgress() {
  if (shown_) std::cerr << '\n';
}

void WriteProgress::show(int64_t done, int64_t total) {
  const double now = steady_seconds();
  if (now < next_ && done < total) return;
  next_ = now + (terminal_ ? 0.1 : 5);
  const double rate = static_cast<double>(done) / std::max(now - begin_, 1e-9);
  const auto left = clock_text(static_cast<double>(total - done) / std::max(rate, 1e-9));
  char text[160];
  if (terminal_) {
    const auto filled = static_cast<int>(30 * done / std::max<int64_t>(total, 1));
    std::snprintf(text, sizeof text, "\r%3d %% |%s%s| %lld/%lld, %.0f items/s, %s left ",
                  static_cast<int>(100 * done / std::max<int64_t>(total, 1)),
                  std::string(static_cast<size_t>(filled), '#').c_str(),
                  std::string(static_cast<size_t>(30 - filled), ' ').c_str(),
                  static_cast<long long>(done), static_cast<long long>(total), rate, left.c_str());
    std::cerr << text << std::flush;
    shown_ = true;
  } else if (done < total && now - begin_ > 1) {
    std::snprintf(text, sizeof text, "%lld of %lld items, %.0f items/s, %s left",
                  static_cast<long long>(done), static_cast<long long>(total), rate, left.c_str());
    log::info(text);
  }
}

}  // namespace composer
