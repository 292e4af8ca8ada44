#include "analysis/headspace.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/number_text.h"

namespace composer {
namespace {

constexpr double least_gain = 1.1;

struct LimitWords {
  const char *name, *subject;
};

constexpr LimitWords limit_words[] = {
    {"step", "the training step limits this run"},
    {"copy", "the copy of batches to the device limits this run"},
    {"storage", "the storage limits this run"},
    {"decoding", "decoding limits this run"},
    {"loader", "the loader limits this run, by other work than decoding"},
};

/// "9 % more", "2.4 times as much".
std::string gain_text(double gain) {
  if (gain >= 2) return number_text(gain, 1) + " times the rate";
  return std::to_string(static_cast<int>((std::max(gain, 1.0) - 1) * 100 + 0.5)) +
         " % more images a second";
}

/// An upper bound of the run's rate with all samples in the page cache.
double storage_free(const Headspace& rates) {
  return std::min(rates.loader_free, rates.as_it_is * rates.step_free / *rates.cold);
}

/// The rate with a loader that costs nothing, as a multiple of the run's rate: no more than the
/// loader's own work and the waits for it account for.
double loader_gain(const Headspace& rates) {
  const bool cold = rates.cold && rates.storage_share > 0.5;
  const double alone = cold ? std::min(*rates.cold, rates.step_free) : rates.step_free;
  const double share = std::min(0.99, rates.wait_fraction + rates.as_it_is / alone);
  return std::min(rates.loader_free / rates.as_it_is, 1 / (1 - share));
}

/// Whether a loader that costs nothing was slower than the real one, or gained far less than the
/// waits for the real one account for.
bool is_noisy(const Headspace& rates) {
  const double by_waits = 1 / (1 - std::min(0.9, rates.wait_fraction));
  return rates.loader_free < 0.95 * rates.as_it_is ||
         (rates.wait_fraction > 0.1 && rates.loader_free < 0.8 * by_waits * rates.as_it_is);
}

Limit limit_of(const Headspace& rates) {
  const double room = loader_gain(rates) - 1;
  const bool copies =
      rates.copy_free && *rates.copy_free >= least_gain * rates.loader_free;  // once data is there
  if (room < least_gain - 1) return copies ? Limit::copy : Limit::step;
  if (rates.storage_share > 0.5 && rates.cold && rates.step_free > least_gain * *rates.cold)
    return Limit::storage;
  if (rates.decoding_free && *rates.decoding_free / rates.as_it_is - 1 >= room / 2)
    return Limit::decoding;
  return Limit::loader;
}

double rate_without(Limit limit, const Headspace& rates) {
  switch (limit) {
    case Limit::copy:
      return rates.as_it_is * *rates.copy_free / rates.loader_free;
    case Limit::storage:
      return storage_free(rates);
    case Limit::decoding:
      return std::min(*rates.decoding_free, rates.as_it_is * loader_gain(rates));
    case Limit::loader:
      return rates.as_it_is * loader_gain(rates);
    case Limit::step:
      break;
  }
  return rates.step_free;
}

std::vector<std::string> faster_steps(const HeadspaceSetting& setting) {
  std::vector<std::string> advice;
  if (!setting.has_amp) advice.push_back("--precision amp");
  if (!setting.channels_last) advice.push_back("the algorithm channels_last");
  advice.push_back(setting.progressive_resizing
                       ? "fewer pixels: smaller images"
                       : "fewer pixels: the algorithm progressive_resizing, smaller images");
  advice.push_back(setting.on_cpu ? "a GPU (device), or more ranks (composer -n)"
                                  : "more ranks (composer -n)");
  return advice;
}

std::vector<std::string> more_workers(const HeadspaceSetting& setting) {
  if (setting.num_workers >= setting.cores) return {};
  return {"--num_workers " + std::to_string(setting.cores) + " (there are " +
          std::to_string(setting.cores) + " cores)"};
}

std::vector<std::string> cheaper_decoding(const HeadspaceSetting& setting) {
  auto advice = more_workers(setting);
  advice.push_back("a .beton file of smaller images: composer data write --max_resolution" +
                   std::string(setting.beton ? "" : ", then use_ffcv"));
  advice.push_back("crop indices made before: composer data index");
  if (!setting.progressive_resizing)
    advice.push_back("progressive_resizing, which decodes small while small images are wanted");
  return advice;
}

std::vector<std::string> advice_on(Limit limit, const HeadspaceSetting& setting) {
  switch (limit) {
    case Limit::copy:
      if (!setting.pinned) return {"--pin_memory true"};
      return {"fewer pixels: a smaller crop_size"};
    case Limit::storage:
      return {"a copy on a disk of the machine's own: ffcv_local_dir",
              "fewer bytes: composer data write --max_resolution, a lower --jpeg_quality",
              "--order quasi_random, which reads neighbours together",
              "more memory: a set that fits is read once"};
    case Limit::decoding:
      return cheaper_decoding(setting);
    case Limit::loader: {
      auto advice = more_workers(setting);
      advice.push_back("fewer or cheaper augmentations in the loader");
      if (setting.num_workers > 0)
        advice.push_back("a larger --prefetch_factor, where batches come in bursts");
      return advice;
    }
    case Limit::step:
      break;
  }
  return faster_steps(setting);
}

}  // namespace

std::string name(Limit limit) { return limit_words[static_cast<size_t>(limit)].name; }

Verdict judge(const Headspace& rates, const HeadspaceSetting& setting) {
  const auto limit = limit_of(rates);
  const double gain = rate_without(limit, rates) / rates.as_it_is;
  const bool step = limit == Limit::step;
  const std::string subject = limit_words[static_cast<size_t>(limit)].subject;
  const auto text = subject +
                    (step ? ": loading that costs nothing would give " : ": free, it would give ") +
                    gain_text(step ? loader_gain(rates) : gain) +
                    (is_noisy(rates) ? "; but the rates contradict each other, as other programs "
                                       "took their share: repeat it, or give more --seconds"
                                     : "");
  return {limit, gain, text, advice_on(limit, setting)};
}

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
  out << std::setw(44) << "images/s" << '\n';
  line("the run as it is", rates.as_it_is,
       "waits for data " + number_text(rates.wait_fraction * 100, 1) + " % of the time");
  line("with the loader free", rates.loader_free, "one batch again and again");
  line("with decoding free", rates.decoding_free,
       rates.decoding_free ? std::to_string(rates.decoded_samples) + " samples, decoded before"
                           : "this set does not say how it is decoded");
  line("with the copy to the device free", rates.copy_free,
       rates.copy_free ? "one batch, on the device" : "there is none on the CPU");
  line("with the step free", rates.step_free, "the loader alone, from the system's cache");
  line("the loader alone, from storage", rates.cold,
       rates.cold ? number_text(*rates.bytes_of_a_sample * *rates.cold / 1e6, 1) + " MB/s"
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
