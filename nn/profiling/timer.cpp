#include "nn/profiling/timer.h"

#include <memory>

namespace composer {
namespace {

using Scope = at::RecordScope;

std::unique_ptr<at::ObserverContext> begin_range(const at::RecordFunction& range) {
  ThreadRanges::of_this_thread().begin(range);
  return nullptr;
}

void end_range(const at::RecordFunction& range, at::ObserverContext*) {
  ThreadRanges::of_this_thread().end(range);
}

RangeTotal difference(const RangeTotal& after, const RangeTotal& before) {
  return {after.calls - before.calls, after.seconds - before.seconds,
          after.self_seconds - before.self_seconds};
}

RangeTotals difference(const RangeTotals& after, const RangeTotals& before) {
  RangeTotals all;
  for (const auto& [name, total] : after) {
    const auto found = before.find(name);
    const auto one = found == before.end() ? total : difference(total, found->second);
    if (one.calls > 0) all.emplace(name, one);
  }
  return all;
}

}  // namespace

Timer::Timer(Listen listen)
    : listen_(listen), here_(&ThreadRanges::of_this_thread()), before_(since_thread_began()) {
  const auto callback = [](std::initializer_list<Scope> scopes) {
    return at::RecordFunctionCallback(&begin_range, &end_range).scopes(scopes);
  };
  if (listen == Listen::here)
    handles_.push_back(at::addThreadLocalCallback(callback({Scope::USER_SCOPE})));
  else
    handles_.push_back(at::addGlobalCallback(callback({Scope::USER_SCOPE})));
  if (listen == Listen::operators)
    handles_.push_back(
        at::addGlobalCallback(callback({Scope::FUNCTION, Scope::BACKWARD_FUNCTION})));
}

Timer::~Timer() {
  for (const auto handle : handles_) at::removeCallback(handle);
}

void Timer::reset() { before_ = since_thread_began(); }

Timer::Totals Timer::since_thread_began() const {
  Totals now;
  now.here = here_->totals(RangeKind::of_users);
  if (listen_ != Listen::here) now.elsewhere = ThreadRanges::of_all(RangeKind::of_users, here_);
  if (listen_ == Listen::operators) now.operators = ThreadRanges::of_all(RangeKind::of_operators);
  return now;
}

Timer::Totals Timer::totals() const {
  const auto now = since_thread_began();
  return {difference(now.here, before_.here), difference(now.elsewhere, before_.elsewhere),
          difference(now.operators, before_.operators)};
}

RangeTotal Timer::here(std::string_view name) const {
  const auto now = here_->total(RangeKind::of_users, name);
  const auto found = before_.here.find(name);
  return found == before_.here.end() ? now : difference(now, found->second);
}

}  // namespace composer
