// What limits a training run, from the rates it has where one part after another costs nothing.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace composer {

/// Rates in images a second; a rate that does not apply or cannot be measured is empty.
struct Headspace {
  double as_it_is = 0;
  double wait_fraction = 0;  ///< share of the time that the loop waited for data, as it is
  double loader_free = 0;    ///< training on one batch in memory, again and again
  double step_free = 0;      ///< the loader alone, its samples in the page cache
  std::optional<double> decoding_free;  ///< training on samples that are already decoded
  std::optional<double> copy_free;      ///< as loader_free, with the batch on the device
  std::optional<double> cold;           ///< the loader alone, its samples on the storage
  double storage_share = 0;  ///< share of the samples that the run as it is reads from the storage
  int64_t decoded_samples = 0;              ///< samples on which decoding_free was measured
  std::optional<double> bytes_of_a_sample;  ///< bytes a sample that are read from the storage
};

/// The settings that a verdict may advise to change.
struct HeadspaceSetting {
  bool on_cpu = true;
  bool has_amp = false;  ///< --precision amp would change nothing
  bool channels_last = false;
  bool progressive_resizing = false;
  bool pinned = false;
  bool beton = false;
  int64_t num_workers = 0, cores = 1;
};

enum class Limit { step, copy, storage, decoding, loader };

/// The recipe's word for people: "decoding".
std::string name(Limit limit);

struct Verdict {
  Limit limit;
  double gain;       ///< rate with the limit removed, as a multiple of the run's rate
  std::string text;  ///< one sentence
  std::vector<std::string> advice;  ///< what to change, the most promising first
};

/// The step limits a run that would gain less than a tenth from a loader that costs nothing.
/// Otherwise the limit is the storage if most samples came from it and it is slower than the cache,
/// decoding if already decoded samples give at least half of the free loader's gain, and else the
/// rest of the loader. The copy replaces the step as the limit if it alone costs a tenth of the
/// step. A free loader's gain is capped by the loader's own work and the waits for it, because the
/// rates are measured one after another on machines that do other work too.
Verdict judge(const Headspace& rates, const HeadspaceSetting& setting);

/// A line for each rate, the verdict and its advice.
std::string text_of(const Headspace& rates, const Verdict& verdict);

/// Rates that were not measured are null.
nlohmann::ordered_json json_of(const Headspace& rates, const Verdict& verdict);

}  // namespace composer
