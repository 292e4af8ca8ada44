#include "cli/write_progress.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <string>

#include "base/log.h"
#include "base/number_text.h"

namespace composer {

WriteProgress::~WriteProgress() {
  if (shown_) std::cerr << '\n';
}

void WriteProgress::show(int64_t done, int64_t total) {
  const double now = steady_seconds();
  if (now < next_ && done < total) return;
  next_ = now + (terminal_ ? 0.1 : 5);
  const double rate = static_cast<double>(done) / std::max(now - begin_, 1e-9);
  const auto rest = number_text(rate, 0) + " items/s, " +
                    clock_text(static_cast<double>(total - done) / std::max(rate, 1e-9)) + " left";
  if (terminal_) {
    const auto share = [&](int64_t whole) { return whole * done / std::max<int64_t>(total, 1); };
    std::string bar(30, ' ');
    std::fill_n(bar.begin(), share(30), '#');
    std::cerr << '\r' << std::setw(3) << share(100) << " % |" << bar << "| " << done << '/' << total
              << ", " << rest << ' ' << std::flush;
    shown_ = true;
  } else if (done < total && now - begin_ > 1) {
    log::info(std::to_string(done) + " of " + std::to_string(total) + " items, " + rest);
  }
}

}  // namespace composer
