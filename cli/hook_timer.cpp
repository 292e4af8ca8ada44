#include "cli/hook_timer.h"

#include <memory>

#include "composer/clock.h"

namespace composer {
namespace {

/// Read and written by the thread that trains only; other threads' ranges have other names.
std::map<std::string, double> totals;

struct Begin : at::ObserverContext {
  double seconds = steady_seconds();
};

std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& range) {
  if (!totals.contains(range.name())) return nullptr;
  return std::make_unique<Begin>();
}

void stop(const at::RecordFunction& range, at::ObserverContext* context) {
  if (context == nullptr) return;
  totals[range.name()] += steady_seconds() - static_cast<Begin*>(context)->seconds;
}

}  // namespace

HookTimer::HookTimer(const std::vector<std::string>& algorithms) {
  totals.clear();
  for (const auto& name : algorithms) totals[name] = 0;
  if (algorithms.empty()) return;
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&start, &stop).scopes({at::RecordScope::FUNCTION}));
}

HookTimer::~HookTimer() {
  if (handle_ != at::INVALID_CALLBACK_HANDLE) at::removeCallback(handle_);
}

void HookTimer::reset() {
  for (auto& [name, seconds] : totals) seconds = 0;
}

const std::map<std::string, double>& HookTimer::seconds() const { return totals; }

}  // namespace composer
