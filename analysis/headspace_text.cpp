#include <cstdio>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analysis/headspace.h"

namespace composer {

std::string text_of(const Headspace& rates, const Verdict& verdict) {
  std::ostringstream out;
  const auto line = [&](const char* what, std::optional<double> rate, const std::string& note) {
    out << std::left << std::setw(34) << what << std::right << std::setw(10);
    if (rate)
      out << std::fixed << std::setprecision(*rate < 100 ? 1 : 0) << *rate;
    else
      out << "-";
    out << (note.empty() ? "" : "   " + note) << '\n';
  };
  const auto percent = [](double share) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %%", share * 100);
    return std::string(text);
  };
  const auto megabytes = [](double bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f MB/s", bytes / 1e6);
    return std::string(text);
  };
  out << std::setw(44) << "images/s" << '\n';
  line("the run as it is", rates.as_it_is,
       "waits for data " + percent(rates.wait_fraction) + " of the time");
  line("with the loader free", rates.loader_free, "one batch again and again");
  line("with decoding free", rates.decoding_free,
       rates.decoding_free ? std::to_string(rates.decoded_samples) + " samples, decoded before"
                           : "this set does not say how it is decoded");
  line("with the copy to the device free", rates.copy_free,
       rates.copy_free ? "one batch, on the device" : "there is none on the CPU");
  line("with the step free", rates.step_free, "the loader alone, from the system's cache");
  line("the loader alone, from storage", rates.cold,
       rates.cold ? megabytes(*rates.bytes_of_a_sample * *rates.cold)
                  : "the system counted no bytes read");
  out << '\n' << verdict.text << "\nto change:\n";
  for (const auto& advice : verdict.advice) out << "  " << advice << '\n';
  if (rates.cold && *rates.cold < rates.as_it_is && verdict.limit != Limit::storage)
    out << "a first epoch, or a set larger than the memory, would be limited by the storage\n";
  return out.str();
}

nlohmann::ordered_json json_of(const Headspace& rates, const Verdict& verdict) {
  const auto optional = [](std::optional<double> value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  return {{"images_per_s", rates.as_it_is},
          {"wait_fraction", rates.wait_fraction},
          {"loader_free", rates.loader_free},
          {"decoding_free", optional(rates.decoding_free)},
          {"decoded_samples", rates.decoded_samples},
          {"copy_free", optional(rates.copy_free)},
          {"step_free", rates.step_free},
          {"loader_cold", optional(rates.cold)},
          {"bytes_of_a_sample", optional(rates.bytes_of_a_sample)},
          {"storage_share", rates.storage_share},
          {"limited_by", name(verdict.limit)},
          {"gain", verdict.gain},
          {"verdict", verdict.text},
          {"advice", verdict.advice}};
}

}  // namespace composer
