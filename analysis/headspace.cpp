#include "analysis/headspace.h"

#include <algorithm>
#include <cstdio>

namespace composer {
namespace {

constexpr double least_gain = 1.1;

std::string one_digit(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

/// "9 % more", "2.4 times as much".
std::string gain_text(double gain) {
  if (gain >= 2) return one_digit(gain) + " times the rate";
  return std::to_string(static_cast<int>((std::max(gain, 1.0) - 1) * 100 + 0.5)) +
         " % more images a second";
}

/// The rate that the storage leaves the run at most, were the samples in the cache.
double storage_free(const Headspace& rates) {
  return std::min(rates.loader_free, rates.as_it_is * rates.step_free / *rates.cold);
}

/// Times the rate with a loader that costs nothing: no more than its own work and the waits for it
/// account for, whatever else slowed one of the rates.
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
  advice.push_back(setting.beton
                       ? "a .beton file of smaller images: composer data write --max_resolution"
                       : "a .beton file of smaller images: composer data write --max_resolution, "
                         "then use_ffcv");
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

std::string subject(Limit limit) {
  switch (limit) {
    case Limit::copy:
      return "the copy of batches to the device limits this run";
    case Limit::storage:
      return "the storage limits this run";
    case Limit::decoding:
      return "decoding limits this run";
    case Limit::loader:
      return "the loader limits this run, by other work than decoding";
    case Limit::step:
      break;
  }
  return "the training step limits this run";
}

}  // namespace

std::string name(Limit limit) {
  switch (limit) {
    case Limit::copy:
      return "copy";
    case Limit::storage:
      return "storage";
    case Limit::decoding:
      return "decoding";
    case Limit::loader:
      return "loader";
    case Limit::step:
      break;
  }
  return "step";
}

Verdict judge(const Headspace& rates, const HeadspaceSetting& setting) {
  const auto limit = limit_of(rates);
  const double gain = rate_without(limit, rates) / rates.as_it_is;
  const bool step = limit == Limit::step;
  const auto text = subject(limit) +
                    (step ? ": loading that costs nothing would give " : ": free, it would give ") +
                    gain_text(step ? loader_gain(rates) : gain) +
                    (is_noisy(rates) ? "; but the rates contradict each other, as other programs "
                                       "took their share: repeat it, or give more --seconds"
                                     : "");
  return {limit, gain, text, advice_on(limit, setting)};
}

}  // namespace composer
