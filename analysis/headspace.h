// What limits a training run, from the rates it has where one part after another costs nothing.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace composer {

/// Images a second; nothing where it does not apply or cannot be measured.
struct Headspace {
  double as_it_is = 0;
  double wait_fraction = 0;  ///< share of the time that the loop waited for data, as it is
  double loader_free = 0;    ///< one batch in memory, again and again
  double step_free = 0;      ///< the loader alone, its samples in the system's cache
  std::optional<double> decoding_free;      ///< training on samples that are decoded already
  std::optional<double> copy_free;          ///< loader_free, the batch on the device
  std::optional<double> cold;               ///< the loader alone, its samples on the storage
  double storage_share = 0;                 ///< of the samples that were read from there, as it is
  int64_t decoded_samples = 0;              ///< that decoding_free is of
  std::optional<double> bytes_of_a_sample;  ///< read from the storage
};

/// What a verdict may advise to change.
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
  double gain;                      ///< times the rate that the run would have with the limit free
  std::string text;                 ///< one sentence
  std::vector<std::string> advice;  ///< what to change, the most promising first
};

/// The step limits a run that would gain less than a tenth from a loader that costs nothing. Else
/// the storage does where most samples came from there and it gives fewer than the cache, decoding
/// where samples that are decoded already give at least half of what the free loader does, and
/// otherwise the rest of the loader. The copy limits in place of the step where it alone costs a
/// tenth of it. A loader gains no more than its work alone and the waits for it account for: rates
/// are taken one after another, on machines that do other work too.
Verdict judge(const Headspace& rates, const HeadspaceSetting& setting);

/// A line for each rate, the verdict and its advice.
std::string text_of(const Headspace& rates, const Verdict& verdict);

/// Rates that were not measured are null.
nlohmann::ordered_json json_of(const Headspace& rates, const Verdict& verdict);

}  // namespace composer
