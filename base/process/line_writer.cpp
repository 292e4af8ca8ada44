#include "base/process/line_writer.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace composer {
namespace {

constexpr size_t most_kept = 1 << 20;

/// The number of bytes to write at once: a writable pipe takes PIPE_BUF bytes without waiting.
size_t next_piece(std::string_view text) {
  if (text.size() <= PIPE_BUF) return text.size();
  const size_t last_newline = text.rfind('\n', PIPE_BUF - 1);
  return last_newline == std::string_view::npos ? PIPE_BUF : last_newline + 1;
}

}  // namespace

void LineWriter::add(std::string_view prefix, std::string_view line) {
  waiting_.append(prefix).append(line) += '\n';
}

void LineWriter::write() {
  std::string_view rest = waiting_;
  bool failed = false;
  while (!rest.empty() && !failed && writable()) {
    const ssize_t size = ::write(descriptor_, rest.data(), next_piece(rest));
    if (size >= 0)
      rest.remove_prefix(static_cast<size_t>(size));
    else if (errno == EAGAIN)
      break;
    else
      failed = errno != EINTR;
  }
  waiting_.erase(0, waiting_.size() - rest.size());
  if (failed) give_up();
}

void LineWriter::give_up() {
  dropped_ += std::ranges::count(waiting_, '\n');
  waiting_.clear();
}

bool LineWriter::full() const { return waiting_.size() > most_kept; }

/// Also true for a closed descriptor, or one without a reader: the next write fails then.
bool LineWriter::writable() const {
  pollfd output{descriptor_, POLLOUT, 0};
  return ::poll(&output, 1, 0) > 0;
}

}  // namespace composer
