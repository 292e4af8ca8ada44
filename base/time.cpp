#include "base/time.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr std::string_view unit_names[] = {"ep", "ba", "sp", "sec", "dur"};
/// 2^53: every whole number up to here is a double.
constexpr double largest_count = 9007199254740992.0;

bool digit(char c) { return c >= '0' && c <= '9'; }

/// Length of the number at the start of `text`: digits with at most one dot, then perhaps
/// e[-]digits. The e of "16ep" belongs to the unit.
size_t number_length(std::string_view text) {
  const auto digits = [&](size_t at) {
    while (at < text.size() && digit(text[at])) ++at;
    return at;
  };
  size_t end = digits(0);
  if (end < text.size() && text[end] == '.') end = digits(end + 1);
  if (end < text.size() && text[end] == 'e') {
    const size_t exponent = end + 1 < text.size() && text[end + 1] == '-' ? end + 2 : end + 1;
    if (exponent < text.size() && digit(text[exponent])) end = digits(exponent);
  }
  return end;
}

bool is_whole(double number) { return number == std::floor(number); }

/// "" and the time in `time`, or what is wrong with the lower-case `text`.
std::string parse_lower(std::string_view text, Time& time) {
  if (text.empty()) return "is empty; write for instance 90ep, 500ba or 0.5dur";
  if (text[0] == '-') return "must not be negative";
  const std::string_view number = text.substr(0, number_length(text));
  const std::string_view unit = text.substr(number.size());
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), time.value);
  if (error == std::errc::result_out_of_range) return "is too large or too small a number";
  if (error != std::errc{} || end != number.data() + number.size())
    return "must start with a number, for instance 90ep, 500ba or 0.5dur";

  const auto* name = std::find(std::begin(unit_names), std::end(unit_names), unit);
  if (unit.empty()) {
    if (!is_whole(time.value)) return "needs a unit: only a whole number without one means epochs";
    name = unit_names;
  } else if (name == std::end(unit_names)) {
    return "has the unknown unit '" + std::string(unit) + "'; units are ep, ba, sp, sec and dur";
  }
  time.unit = static_cast<TimeUnit>(name - unit_names);
  return time.problem();
}

/// Batches that the first `samples` samples make, the last batch of an epoch perhaps short.
double batches_of_samples(const RunLength& run_length, double samples) {
  const auto per_epoch = static_cast<double>(run_length.batches_per_epoch);
  const auto size = static_cast<double>(run_length.batch_size);
  const double epoch =
      std::min(static_cast<double>(run_length.samples_per_epoch), per_epoch * size);
  const double epochs = std::floor(samples / epoch);
  const double rest = samples - epochs * epoch;
  const double before_last = per_epoch - 1;
  const double in_epoch =
      rest <= before_last * size
          ? rest / size
          : before_last + (rest - before_last * size) / (epoch - before_last * size);
  return epochs * per_epoch + in_epoch;
}

UserError share_of_itself(const Time& max_duration) {
  return UserError("max_duration: " + max_duration.str() +
                   " cannot be a share of itself; use ep, ba, sp or sec");
}

/// Whether the last of `batches` batches reached a multiple of `every`.
bool reaches_multiple(int64_t batches, double every) {
  constexpr double rounding = 1e-9;
  const auto multiples = [&](int64_t count) {
    return std::floor(static_cast<double>(count) / every + rounding);
  };
  return multiples(batches) > multiples(batches - 1);
}

}  // namespace

std::optional<Time> Time::parse(std::string_view text, std::string* problem) {
  Time time;
  const std::string why = parse_lower(lower_case(std::string(text)), time);
  if (why.empty()) return time;
  if (problem) *problem = why;
  return std::nullopt;
}

std::string Time::problem() const {
  if (!std::isfinite(value)) return "is no number";
  if (value < 0) return "must not be negative";
  if (unit == TimeUnit::second || unit == TimeUnit::duration) return "";
  if (!is_whole(value))
    return "must be a whole number of " + std::string(unit_names[static_cast<size_t>(unit)]) +
           " (only sec and dur may have a fraction)";
  return value > largest_count ? "is too large a number" : "";
}

std::string Time::str() const {
  char digits[512];  // the largest double has 309
  const auto end = std::to_chars(digits, std::end(digits), value, std::chars_format::fixed).ptr;
  return std::string(digits, end) + std::string(unit_names[static_cast<size_t>(unit)]);
}

std::string check_interval(const std::string& key, const Time& time) {
  if (time.unit == TimeUnit::second || time.unit == TimeUnit::duration)
    return key + ": must be in ep, ba or sp, not " + time.str();
  return "";
}

std::string check_repetition(const std::string& key, const Time& time) {
  if (time.unit == TimeUnit::duration && time.value > 1)
    return key + ": must be at most 1dur, the whole run, not " + time.str();
  return "";
}

RunLength RunLength::as_planned() const {
  RunLength whole = *this;
  whole.max_duration = planned.value_or(max_duration);
  return whole;
}

double RunLength::batches(const Time& time) const {
  switch (time.unit) {
    case TimeUnit::epoch:
      return time.value * static_cast<double>(batches_per_epoch);
    case TimeUnit::batch:
      return time.value;
    case TimeUnit::sample:
      return batches_of_samples(*this, time.value);
    case TimeUnit::duration:
      if (max_duration.unit == TimeUnit::duration) throw share_of_itself(max_duration);
      if (max_duration.unit == TimeUnit::second)
        throw UserError(time.str() + ": a share of max_duration " + max_duration.str() +
                        " has no number of batches; use ep, ba or sp");
      return time.value * batches(max_duration);
    case TimeUnit::second:
      break;
  }
  throw UserError(time.str() + ": seconds have no number of batches; use ep, ba, sp or dur");
}

std::optional<int64_t> RunLength::total_batches() const {
  if (max_duration.unit == TimeUnit::second) return std::nullopt;
  return static_cast<int64_t>(std::ceil(batches(max_duration)));
}

void RunLength::take_up(const Timestamp& now) {
  ahead_of_epochs = now.batch - (now.epoch * batches_per_epoch + now.batch_in_epoch);
  ahead_of_length = ahead_of_epochs;
  if (max_duration.unit == TimeUnit::batch) ahead_of_length = 0;
  if (max_duration.unit == TimeUnit::sample)
    ahead_of_length =
        now.batch - std::llround(batches_of_samples(*this, static_cast<double>(now.sample)));
}

double RunLength::elapsed(const Timestamp& now) const {
  const auto total = total_batches();
  const double done = total ? static_cast<double>(position(now)) : now.seconds;
  const double all = total ? static_cast<double>(*total) : max_duration.value;
  return done >= all ? 1.0 : done / all;
}

Timestamp RunLength::at_batch(int64_t batch) const {
  Timestamp time;
  time.batch = batch;
  time.epoch = (batch - ahead_of_epochs) / batches_per_epoch;
  time.batch_in_epoch = (batch - ahead_of_epochs) % batches_per_epoch;
  time.sample_in_epoch = time.batch_in_epoch * batch_size;
  time.sample = time.epoch * samples_per_epoch + time.sample_in_epoch;
  return time;
}

bool RunLength::finished(const Timestamp& now) const {
  const auto [length, unit] = max_duration;
  if (unit == TimeUnit::duration) throw share_of_itself(max_duration);
  const double done = unit == TimeUnit::epoch    ? static_cast<double>(now.epoch)
                      : unit == TimeUnit::batch  ? static_cast<double>(now.batch)
                      : unit == TimeUnit::sample ? static_cast<double>(now.sample)
                                                 : now.seconds;
  return done >= length;
}

bool RunLength::due(const Time& interval, const Timestamp& now, bool epoch_end) const {
  if (interval.unit == TimeUnit::duration) {
    const auto whole = as_planned();
    if (epoch_end || now.batch == 0 || interval.value <= 0 ||
        whole.max_duration.unit == TimeUnit::second)
      return false;
    return reaches_multiple(position(now), whole.batches(interval));
  }
  const auto every = static_cast<int64_t>(interval.value);
  if (every <= 0) return false;
  switch (interval.unit) {
    case TimeUnit::epoch:
      return epoch_end && now.epoch > 0 && now.epoch % every == 0;
    case TimeUnit::batch:
      return !epoch_end && now.batch > 0 && now.batch % every == 0;
    case TimeUnit::sample: {
      if (epoch_end || now.batch_in_epoch == 0) return false;
      const int64_t last = now.sample_in_epoch - (now.batch_in_epoch - 1) * batch_size;
      const int64_t before = now.sample - std::clamp<int64_t>(last, 1, batch_size);
      return now.sample / every > before / every;
    }
    case TimeUnit::second:
    case TimeUnit::duration:
      break;
  }
  return false;
}

bool Repetition::due(const RunLength& run_length, const Timestamp& now, bool epoch_end) const {
  const auto length = run_length.as_planned().max_duration;
  const bool share = interval_.unit == TimeUnit::duration && length.unit == TimeUnit::second;
  if (interval_.unit != TimeUnit::second && !share)
    return run_length.due(interval_, now, epoch_end);
  const double every = share ? interval_.value * length.value : interval_.value;
  return !epoch_end && every > 0 && now.seconds - seconds_ >= every;
}

}  // namespace composer
