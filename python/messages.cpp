#include "python/messages.h"

#include <deque>
#include <mutex>
#include <set>

#include "base/log.h"
#include "base/url_secrets.h"

namespace composer {
namespace {

struct Messages {
  std::mutex lock;
  std::deque<std::pair<std::string, std::string>> lines;
  std::set<std::string> told;  // by info_once()
};

Messages& messages() {
  static auto* const kept = new Messages;  // never destroyed: threads may still log at the end
  return *kept;
}

void add(const char* level, const std::string& line) {
  constexpr size_t kMost = 1000;
  auto& kept = messages();
  const std::lock_guard guard(kept.lock);
  kept.lines.emplace_back(level, without_secrets(line));
  if (kept.lines.size() > kMost) kept.lines.pop_front();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> take_messages() {
  auto& kept = messages();
  const std::lock_guard guard(kept.lock);
  std::vector<std::pair<std::string, std::string>> lines(kept.lines.begin(), kept.lines.end());
  kept.lines.clear();
  return lines;
}

namespace log {

void info(const std::string& message) { add("info", message); }
void info_once(const std::string& message) {
  {
    auto& kept = messages();
    const std::lock_guard guard(kept.lock);
    if (!kept.told.insert(message).second) return;
  }
  info(message);
}
void warn(const std::string& message) { add("warning", message); }
void error(const std::string& message) { add("warning", message); }

}  // namespace log
}  // namespace composer
