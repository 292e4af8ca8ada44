#include "analysis/run_log_tail.h"

#include <sys/stat.h>

#include <fstream>

namespace composer {

bool RunLogTail::update(std::vector<LogEntry>& log) {
  struct stat now {};
  if (stat(file_.c_str(), &now) != 0) return false;
  bool changed = false;
  if (now.st_ino != inode_ || now.st_size < position_) {
    changed = !log.empty();
    inode_ = now.st_ino, position_ = 0;
    log.clear();
  }
  std::ifstream in(file_);
  in.seekg(position_);
  for (std::string line; std::getline(in, line) && !in.eof();) {
    position_ += std::ssize(line) + 1;
    auto entry = read_log_line(line);
    if (!entry) continue;
    log.push_back(std::move(*entry));
    changed = true;
  }
  return changed;
}

}  // namespace composer
